"""Settings from the environment, and the errors that name what is wrong in it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from nnvk.base import log
from nnvk.base.errors import NnapiError, ResultCode, bad_data, bad_state, op_failed
from nnvk.base.settings import Settings, override, settings


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Settings()),
        ({"NNVK_VLOG": "model,driver"}, Settings(vlog="model,driver")),
        ({"NNVK_VALIDATION": "1", "NNVK_VULKAN": "0"}, Settings(validation=True, vulkan=False)),
        ({"NNVK_PARTITION": "2"}, Settings(partition=2)),
        ({"NNVK_DEVICE_PROFILE": "mobile-min"}, Settings(device_profile="mobile-min")),
        ({"NNVK_DEVICE_PROFILE": "gpu"}, Settings(device_profile="gpu")),
        ({"NNVK_DEVICE": "auto"}, Settings(device="auto")),
        ({"NNVK_DRIVER_PROCESS": "1", "NNVK_PATIENCE": "0"}, Settings(driver_process=True, patience=0)),
        ({"NNVK_SOMETHING_ELSE": "1", "PARTITION": "2"}, Settings()),
    ],
    ids=str,
)
def test_settings(environment: dict[str, str], expected: Settings) -> None:
    assert Settings.from_environment(environment) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NNVK_VULKAN", "yes"),
        ("NNVK_VALIDATION", "2"),
        ("NNVK_VALIDATION", " "),
        ("NNVK_PARTITION", "one"),
        ("NNVK_PARTITION", "7"),
        ("NNVK_PARTITION", "-1"),
        ("NNVK_DEVICE_PROFILE", "tiny"),
        ("NNVK_DEVICE", "vulkan-0"),
        ("NNVK_VLOG", "model,other"),
        ("NNVK_DRIVER_PROCESS", "yes"),
        ("NNVK_PATIENCE", "long"),
        ("NNVK_PATIENCE", "-1"),
        ("NNVK_PATIENCE", "1.5"),
        ("NNVK_PATIENCE", "9" * 5000),
        ("NNVK_KEEP_PLANS", "no"),
        ("NNVK_COMPILE", "quick"),
        ("NNVK_PROGRESS", "yes"),
        ("NNVK_COMPILE_LIMIT", "0.5"),
    ],
    ids=lambda value: value[:20],
)
def test_values_that_are_not_allowed(name: str, text: str) -> None:
    allowed = {
        "NNVK_PARTITION": "0, 1 or 2",
        "NNVK_DEVICE_PROFILE": "mobile-min or gpu",
        "NNVK_DEVICE": "must be auto, or empty",
        "NNVK_VLOG": "model, compilation",
        "NNVK_PATIENCE": "a whole number from 0 on",
        "NNVK_COMPILE": "best or fast",
        "NNVK_COMPILE_LIMIT": "a whole number from 0 on",
    }
    with pytest.raises(ValueError, match=rf"{name} .*{allowed.get(name, '0 or 1')}.*{text.split(',')[-1]}'"):
        Settings.from_environment({name: text})


@pytest.mark.parametrize(
    "given", [Settings(), Settings("all", "mobile-min", True, False, 2, "/x", True, True, 3, False, "fast", 0)]
)
def test_another_process_has_the_same(given: Settings) -> None:
    assert Settings.from_environment(given.environment()) == given


def test_empty_values_are_as_good_as_unset() -> None:
    assert Settings.from_environment({f"NNVK_{field.name.upper()}": "" for field in fields(Settings)}) == Settings()


@pytest.mark.parametrize("setting", ["NNVK_PARTITION=7", "NNVK_DEVICE_PROFILE=tiny", "NNVK_VLOG=other"])
def test_a_bad_variable_is_an_error_of_the_first_call(setting: str) -> None:
    name, _, text = setting.partition("=")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), name: text}
    done = subprocess.run(
        [sys.executable, "-c", "import nnvk; nnvk.get_devices()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ValueError: {name} ")


def test_settings_can_be_replaced_for_a_while() -> None:
    before = settings()
    with override(partition=2) as inner:
        assert settings() is inner
        assert settings().partition == 2
        with override(vlog="all"):
            assert (settings().partition, settings().vlog) == (2, "all")
        assert settings() is inner
    assert settings() is before
    with pytest.raises(KeyError), override(partition=0):
        raise KeyError
    assert settings() is before


@pytest.mark.parametrize(
    ("make", "code"),
    [(bad_data, ResultCode.BAD_DATA), (bad_state, ResultCode.BAD_STATE), (op_failed, ResultCode.OP_FAILED)],
)
def test_errors(make: Any, code: ResultCode) -> None:
    error = make("something is wrong")
    assert isinstance(error, NnapiError)
    assert (error.code, error.reason) == (code, "something is wrong")
    assert str(error) == f"{code.name}: something is wrong"


def test_tags_of_the_log() -> None:
    assert all(log.logger(tag).name == f"nnvk.{tag}" for tag in log.TAGS)
    with pytest.raises(ValueError, match="no log tag 'other'"):
        log.logger("other")


@pytest.mark.parametrize(
    ("vlog", "printed"),
    [
        ("", ()),
        ("model", ("model",)),
        ("model,driver", ("model", "driver")),
        ("model:driver", ("model", "driver")),
        (" model  driver", ("model", "driver")),
        ("all", log.TAGS),
        ("1", log.TAGS),
    ],
)
def test_only_the_tags_that_are_wanted_are_printed(vlog: str, printed: tuple[str, ...]) -> None:
    script = "import logging; from nnvk.base import log; log.configure(); [log.logger(t).debug('x') for t in log.TAGS]"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"NNVK_VLOG": vlog}, capture_output=True, text=True, check=True, cwd="/"
    )
    assert sorted(done.stderr.splitlines()) == sorted(f"nnvk.{tag}: x" for tag in printed)
    assert logging.getLogger("nnvk.model").handlers == []


@pytest.mark.parametrize(("seconds", "logged"), [(0.9, []), (1.2, ["opening file 7 took 1.2 s"])])
def test_what_takes_long_is_logged(
    seconds: float, logged: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([5.0, 5.0 + seconds])
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with caplog.at_level(logging.INFO, "nnvk.model"), log.timed(log.logger("model"), "opening file %d", 7):
        pass
    assert caplog.messages == logged
