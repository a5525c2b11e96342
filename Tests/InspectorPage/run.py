#!/usr/bin/env python3
"""Tests the inspector's page in headless Chromium, on three real nodes that are cut apart and healed.

    Tests/InspectorPage/run.py [--files] [--screenshots] [WORD ...]

With words only the scenarios whose names have one of them. --files takes the page from the sources, not from the
program, for work on it without building. --screenshots makes the images of docs/images again. TRIBUTARY names the program, by default that of .build.
Where Chromium, its driver, Selenium or the program cannot be had, it says so and ends with 0.
"""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def skip(why):
    print(f"skipped: the inspector's page was not tested, because {why}")
    sys.exit(0)


try:
    import selenium  # noqa: F401
except ImportError:
    # An environment beside the sources, if somebody made one: python3 -m venv .build/selenium
    found = sorted((HERE.parent.parent / ".build/selenium/lib").glob("python3*/site-packages"))
    if not found:
        skip("Selenium is missing: python3 -m venv .build/selenium && .build/selenium/bin/pip install selenium")
    sys.path.insert(0, str(found[-1]))
    try:
        import selenium  # noqa: F401
    except ImportError:
        skip("Selenium cannot be imported")

import cluster  # noqa: E402
import devserver  # noqa: E402
from browser import Page  # noqa: E402
import scenarios  # noqa: E402


def has_page(url):
    """Whether a node serves the page itself."""
    try:
        with urllib.request.urlopen(url + "/", timeout=5) as answer:
            return answer.status == 200 and b"/inspector/app.js" in answer.read()
    except (urllib.error.URLError, OSError):
        return False


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
    if not chromium or not driver:
        skip("Chromium or its driver is missing: apt-get install chromium chromium-driver")
    binary = cluster.program()
    if not binary:
        skip("the program is not built: swift build --product tributary, or set TRIBUTARY")
    # Whoever ends the tests ends the nodes and the browser, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    nodes = cluster.Cluster(binary)
    servers = []
    profile = tempfile.mkdtemp(prefix="inspector-page-browser-")
    page = None
    failed = []
    done = 0
    try:
        nodes.start()
        bases = {}
        for number, node in nodes.nodes.items():
            if "--files" not in sys.argv and has_page(node.url):
                bases[number] = node.url
            else:
                port = cluster.free_ports(1)[0]
                servers.append(devserver.serve(port, node.url))
                bases[number] = f"http://127.0.0.1:{port}"
        print("A development server serves the page." if servers else "The nodes serve the page.")
        page = Page(chromium, driver, profile)
        page.bases = bases
        world = scenarios.World(nodes, page, binary, "--screenshots" in sys.argv)
        for scenario in scenarios.ALL:
            name = scenario.__doc__
            if words and not any(word.lower() in name.lower() for word in words):
                continue
            done += 1
            start = time.monotonic()
            try:
                world.reset()
                scenario(world)
                complaints = page.complaints()
                assert not complaints, f"the browser complained: {complaints[:3]}"
                print(f"ok      {time.monotonic() - start:5.1f} s  {name}", flush=True)
            except Exception as error:  # a scenario may fail in any way, and the others still run
                failed.append(name)
                print(f"FAILED  {time.monotonic() - start:5.1f} s  {name}\n        {error}", flush=True)
                if not isinstance(error, AssertionError) or os.environ.get("TRACE"):
                    traceback.print_exc()
                page.complaints()
    finally:
        if page:
            page.quit()
        for server in servers:
            server.shutdown()
        nodes.stop()
        shutil.rmtree(profile, ignore_errors=True)
    print(f"{done} scenarios, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    for name in failed:
        print(f"  failed: {name}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
