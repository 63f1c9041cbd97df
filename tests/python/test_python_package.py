# SPDX-License-Identifier: MIT
# The package feedline as a whole: its version, its error, its logger, its types, and parts that aren't built.
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import feedline

PACKAGE = pathlib.Path(feedline.__file__).parent
LIBRARY = pathlib.Path(__file__).resolve().parents[2]
PARTS = [name for name in ("audio", "chess", "images", "pipeline", "text") if hasattr(feedline._native, name)]


def test_the_version_is_the_librarys():
    header = (LIBRARY / "include/feedline/version.hpp").read_text()
    assert feedline.__version__ == ".".join(re.findall(r"version_\w+ = (\d+);", header))


def test_all_parts_raise_one_error():
    for name in PARTS:
        assert getattr(feedline, name).PipelineError is feedline.PipelineError
    assert (feedline.PipelineError.__module__, feedline.PipelineError.__name__) == ("feedline", "PipelineError")
    assert issubclass(feedline.PipelineError, RuntimeError)


def test_classes_say_where_users_find_them():
    for name in PARTS:
        if name != "chess":
            loader = getattr(feedline, name).Windows if name == "text" else getattr(feedline, name).Loader
            assert loader.__module__ == f"feedline.{name}"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'imges'"):
        feedline.imges


def test_a_part_that_isnt_built_says_what_it_needs(tmp_path):
    # A package whose native module has no parts.
    folder = tmp_path / "feedline"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    (folder / "_native.py").write_text("__version__ = '1'\nclass PipelineError(RuntimeError): pass\n")
    for name, words in {"images": "libjpeg-dev", "audio": "libsndfile1-dev", "chess": "libdeflate-dev"}.items():
        outcome = subprocess.run([sys.executable, "-c", f"import feedline.{name}"], cwd=tmp_path,
                                 env=dict(os.environ, PYTHONPATH=str(tmp_path)), capture_output=True, text=True, timeout=60)
        assert f"ImportError: feedline.{name} isn't in this installation" in outcome.stderr and words in outcome.stderr


def test_a_part_is_imported_when_it_is_used():
    code = "import sys, feedline\nassert 'feedline.images' not in sys.modules\nfeedline.images\nassert 'feedline.images' in sys.modules"
    if "images" in PARTS:
        subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=str(PACKAGE.parent)), check=True, timeout=60)


@pytest.mark.skipif("chess" not in PARTS, reason="feedline.chess isn't built")
def test_notices_go_to_the_logger(tmp_path, caplog):
    from feedline.chess import DataLoader, DataLoaderConfig, FilePathProvider
    (tmp_path / "bad.tar").write_bytes(b"no archive" * 100)
    (tmp_path / "bad.gz").write_bytes(b"no game")
    with caplog.at_level(logging.WARNING, "feedline"):
        DataLoader(DataLoaderConfig(FilePathProvider(tmp_path), infinite=False))
    assert [r.name for r in caplog.records] == ["feedline"] and "bad.tar" in caplog.records[0].getMessage()


USES = """
import feedline

def train() -> None:
    assert feedline.__version__.upper()
{lines}
"""
LINES = {
    "images": "    images = feedline.images.Loader('a.tar', seed=7, batch_size=4)\n    print(len(images), images.metrics_text().upper())",
    "audio": "    audio = feedline.audio.Loader(['a.arrow'], infinite=False)\n    audio.load_state_dict(audio.state_dict())",
    "text": "    text = feedline.text.Windows(['a.bin'], 1025, stride=1024)\n    print(text.epoch + 1, next(text))",
    "chess": "    config = feedline.chess.DataLoaderConfig(feedline.chess.FilePathProvider('games'))\n"
             "    chess = feedline.chess.DataLoader(config)\n    chess.close()",
    "pipeline": "    def load(path: str, context: feedline.pipeline.Context) -> float:\n        return len(path) + context.rng.random()\n"
                "    feedline.files('a').map(load).map(len, workers=3)\n"
                "    p = feedline.files(['a/*.txt']).map(len, workers=2).shuffle(9).batch(4)\n    p.infinite(seed=7).close(drain=True)",
}
WRONG = {"images": "feedline.images.Loader('a.tar', batchsize=4)", "audio": "feedline.audio.Loader()", "text": "feedline.text.Windows(7)",
         "chess": "feedline.chess.DataLoader(7)", "pipeline": "feedline.files(3)"}


def checked(tmp_path, lines):
    (tmp_path / "use.py").write_text(USES.format(lines=lines))
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "use.py"], cwd=tmp_path,
                          env=dict(os.environ, MYPYPATH=str(PACKAGE.parent)), capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(shutil.which("mypy") is None and subprocess.run(
    [sys.executable, "-c", "import mypy"], capture_output=True).returncode != 0, reason="mypy isn't installed")
def test_mypy_accepts_right_uses_and_names_wrong_ones(tmp_path):
    right = checked(tmp_path, "\n".join(LINES[name] for name in PARTS))
    assert right.returncode == 0, right.stdout
    for name in PARTS:
        wrong = checked(tmp_path, "    " + WRONG[name])
        assert wrong.returncode != 0 and "use.py" in wrong.stdout, name
    whole = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "-p", "feedline"], cwd=PACKAGE.parent,
                           capture_output=True, text=True, timeout=300)
    assert whole.returncode == 0, whole.stdout


@pytest.mark.parametrize("name, options, near", [
    ("images", {"batchsize": 4}, "'batchsize': did you mean batch_size?"), ("audio", {"clip_second": 1}, "did you mean clip_seconds?"),
    ("images", {"xyzzy": 1}, "Loader() has no option 'xyzzy'")])
def test_a_misspelt_option_is_named_with_the_nearest_one(name, options, near):
    if name not in PARTS:
        pytest.skip(f"feedline.{name} isn't built")
    with pytest.raises(TypeError, match=re.escape(near)):
        getattr(feedline, name).Loader("a", **options)
