#include "runtime/base/Version.h"

const char *stow::version() { return STOWAGE_VERSION; }
