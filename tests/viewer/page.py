"""A page in headless Chromium, as a person would use it: real pointer, real keys."""

import json
import shutil
import time

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
SIZE = (1440, 900)


def expect(truth: bool, what: str) -> None:
    if not truth:
        raise AssertionError(what)


def kinds_of_aliases(plan: dict) -> set[str]:
    return {kind for buffer in plan["buffers"] for kind in buffer.get("alias_kinds", []) if kind}


def missing_parts() -> list[str]:
    """What a test in a browser needs and this machine lacks."""
    missing = [path for path in (CHROMIUM, DRIVER) if not shutil.which(path)]
    try:
        import selenium  # noqa: F401
    except ImportError:
        missing.append("python3-selenium")
    return missing


def open_browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # --no-sandbox: containers run as root. Pages of tests are our own files.
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={SIZE[0]},{SIZE[1]}",
                 "--hide-scrollbars", "--force-device-scale-factor=1", "--disable-background-networking", "--no-first-run",
                 "--force-prefers-reduced-motion"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(service=Service(DRIVER), options=options)
    # Where other work has the processors minutes pass; what hangs ends here.
    browser.set_page_load_timeout(1200)
    browser.set_script_timeout(1200)
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    # The window's frame takes some of it away.
    inner = browser.execute_script("return [innerWidth, innerHeight]")
    browser.set_window_size(2 * SIZE[0] - inner[0], 2 * SIZE[1] - inner[1])
    return browser


class Page:
    """One opened file."""

    def __init__(self, browser, path) -> None:
        self.browser, self.path = browser, path
        self.open()

    def open(self) -> None:
        self.browser.get_log("performance"), self.browser.get_log("browser")
        self.browser.get(self.path.resolve().as_uri())
        self.wait("stowage.readyMs > 0 || stowage.errors.length > 0")
        self.opening_ms = self.processor_ms()

    def processor_ms(self) -> float:
        """Processor time of the main thread's tasks since the page was opened: the same beside other work."""
        metrics = self.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1e3 * next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def js(self, expression: str, *arguments):
        return self.browser.execute_script(f"return {expression}", *arguments)

    def wait(self, condition: str, seconds: float = 600) -> None:
        end = time.monotonic() + seconds
        while not self.js(f"!!(window.stowage && ({condition}))"):
            if time.monotonic() > end:
                raise AssertionError(f"{self.path.name}: never came true: {condition}; state {self.state()}")
            time.sleep(0.05)

    def state(self) -> dict:
        return json.loads(self.js("JSON.stringify(stowage.state())"))

    def drawn(self) -> dict:
        """The state after the next frame."""
        self.browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
        return self.state()

    def element(self, selector: str):
        from selenium.webdriver.common.by import By

        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def elements(self, selector: str):
        from selenium.webdriver.common.by import By

        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.js("document.querySelector(arguments[0]).textContent", selector)

    def pointer(self, place: dict, click: bool = False) -> None:
        """Moves the pointer to a place of the window, and clicks there."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        builder = ActionBuilder(self.browser)
        builder.pointer_action.move_to_location(round(place["x"]), round(place["y"]))
        if click:
            builder.pointer_action.click()
        builder.perform()
        ActionChains(self.browser).pause(0.15).perform()

    def keys(self, text: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(text).pause(0.1).perform()

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened, itself and what lies inside it left out."""
        asked = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        own = self.path.resolve().as_uri()
        return [url for url in asked if not url.startswith(("data:", "blob:")) and url.split("#")[0] != own]

    def problems(self) -> list[str]:
        """Errors and warnings of the console, and what the page itself caught."""
        return [entry["message"] for entry in self.browser.get_log("browser")] + self.js("stowage.errors")
