# Read by ctest itself: what a test prints does not depend on how long its commands take.
set(ENV{STOWAGE_PROGRESS} none)
