"""A plugin: a test that is marked with what it needs is skipped without it, and the run ends with what to install."""

from collections.abc import Generator
from typing import Any

import pytest
from needs import install_line, why_missing

NEED_OF_LEVEL = {"bubblewrap": "bwrap", "bubblewrap on a worker": "bwrap", "landlock": "landlock"}
ALLOWED = {"root": "an ordinary user runs the suite too", "mount": "in most containers not even root may mount"}


def levels(*names: str) -> list[Any]:
    """Levels of the sandbox for ``parametrize``, each marked with what it needs."""
    return [
        pytest.param(name, marks=pytest.mark.needs(NEED_OF_LEVEL[name])) if name in NEED_OF_LEVEL else name
        for name in names
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips", action="store_true", help="a skipped test fails, but for want of: " + ", ".join(ALLOWED)
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name, ...): a program, or what else tests/support/needs.py knows")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = [need for mark in item.iter_markers("needs") for need in mark.args]
    reasons = {need: reason for need in wanted if (reason := why_missing(need)) is not None}
    for missing in reasons.items():
        item.user_properties.append(("missing", missing))
    if reasons:
        pytest.skip("; ".join(reasons.values()))


def _missing(report: Any) -> dict[str, str]:
    """What a skipped test lacked, with the reason."""
    return dict(value for name, value in getattr(report, "user_properties", ()) if name == "missing")


def _forbid_skip(config: pytest.Config, report: Any) -> None:
    """Makes a skip a failure, where the option says so and the skip is not an allowed one."""
    if not config.getoption("no_skips") or not report.skipped or hasattr(report, "wasxfail"):
        return
    missing = _missing(report)
    if not missing or set(missing) - set(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"--no-skips: {report.longrepr[2]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(collector.config, report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    yield
    skipped = [missing for report in terminalreporter.getreports("skipped") if (missing := _missing(report))]
    if not skipped:
        return
    terminalreporter.section("missing here")
    for need in sorted({need for missing in skipped for need in missing}):
        (reason, *_) = [missing[need] for missing in skipped if need in missing]
        count = sum(need in missing for missing in skipped)
        terminalreporter.write_line(f"{reason}: {count} {'test' if count == 1 else 'tests'} skipped")
    if line := install_line({need for missing in skipped for need in missing}):
        terminalreporter.write_line(f"to run them too: {line}")
