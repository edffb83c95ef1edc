"""One page of a real browser: go somewhere, click, type, look; and everything it complained about."""

import base64
import json

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
COMPLAINTS = ("error", "warning", "assert")
_SECONDS = 20


class Tab:
    def __init__(self, socket):
        self._socket = socket
        self._count = 0
        self._loads = 0
        self._shown = ""
        self.complaints = []
        for domain in ("Page", "Runtime", "Log"):
            self.do(f"{domain}.enable")
        self.size(DESKTOP)

    def do(self, method, **parameters):
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            message = self._hear()
            if message.get("id") == self._count:
                assert "error" not in message, message
                return message["result"]

    def _hear(self):
        message = json.loads(self._socket.recv(timeout=_SECONDS))
        happened, about = message.get("method"), message.get("params", {})
        if happened == "Page.loadEventFired":
            self._loads += 1
        elif happened == "Page.frameNavigated" and "parentId" not in about["frame"]:
            self._shown = about["frame"]["url"]
        elif happened in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.complaints.append(about)
        elif happened == "Runtime.consoleAPICalled" and about["type"] in COMPLAINTS:
            self.complaints.append(about["args"])
        elif happened == "Log.entryAdded" and about["entry"]["level"] in COMPLAINTS:
            self.complaints.append(about["entry"]["text"])
        return message

    def _loaded(self, before):
        while self._loads == before:
            self._hear()

    def go(self, address):
        before = self._loads
        self.do("Page.navigate", url=address)
        self._loaded(before)

    def ask(self, expression):
        answer = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector):
        """With the mouse, where a person would see it, and wait for the page it leads to."""
        before = self._loads
        self.press(self.place(selector))
        self._loaded(before)

    def place(self, selector):
        """Of its middle, brought into sight."""
        return self.ask(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)}); it.scrollIntoView({{block: 'center'}});"
            " const box = it.getBoundingClientRect(); return {x: box.x + box.width / 2, y: box.y + box.height / 2}; })()"
        )

    def press(self, place, count=1):
        """Wait for nothing. A count of 2 is the second half of a double click."""
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=count)

    def back(self):
        """Wherever the browser keeps the page before: it may show it without loading it."""
        history = self.do("Page.getNavigationHistory")
        before = history["entries"][history["currentIndex"] - 1]
        self.do("Page.navigateToHistoryEntry", entryId=before["id"])
        while self._shown != before["url"]:
            self._hear()

    def type(self, selector, text):
        self.ask(f"document.querySelector({json.dumps(selector)}).select()")
        self.do("Input.insertText", text=text)

    def text(self):
        """Empty while a page is only coming."""
        return self.ask("document.body?.innerText ?? ''")

    def until_it_says(self, text):
        """Through however many pages it takes."""
        while True:
            before = self._loads
            if text in self.text():
                return
            self._loaded(before)

    def without_scripts(self):
        self.do("Emulation.setScriptExecutionDisabled", value=True)

    def wait_for(self, expression):
        self.ask(
            f"new Promise((done, fail) => {{ const end = Date.now() + {_SECONDS * 500}; const look = () => ({expression}) ?"
            " done() : Date.now() > end ? fail(new Error('in vain')) : setTimeout(look, 50); look(); })"
        )

    def size(self, device):
        self.do("Emulation.setDeviceMetricsOverride", **device)

    def colours(self, scheme):
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(
            base64.b64decode(self.do("Page.captureScreenshot", captureBeyondViewport=True)["data"])
        )
