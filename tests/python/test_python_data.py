# SPDX-License-Identifier: MIT
# The data that the package reads: rows of Arrow files, folders of classes, files in rows and members, several sources, documents.
import gc
import io
import itertools
import json
import os
import pickle
import shutil
import struct
import tarfile
import threading
import wave
import weakref

import numpy as np
import pytest

import feedline
import feedline.audio
import feedline.images
import feedline.text
from support import Counting, check_same, indices, run_program, take


def reference(which, *arguments):
    run_program(f"FEEDLINE_{which}_REFERENCE", *arguments)


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def numbers(begin, end):
    return feedline.dataset(range(begin, end))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    reference("IMAGE", "jpegs", folder, 10)
    return [folder / f"{i}.jpg" for i in range(10)]


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    random = np.random.default_rng(3)
    for i in range(6):
        with wave.open(str(folder / f"{i}.wav"), "wb") as file:
            samples = random.integers(-9000, 9000, 2000 + 700 * i, dtype=np.int16)
            file.setparams((1, 2, 8000, len(samples), "NONE", ""))
            file.writeframes(samples.tobytes())
    return [folder / f"{i}.wav" for i in range(6)]


@pytest.fixture(scope="module")
def shard(photos, tmp_path_factory):
    """The photographs with their numbers as labels."""
    return write_tar(tmp_path_factory.mktemp("shard") / "a.tar",
                     [m for i, p in enumerate(photos) for m in ((f"{i}.jpg", p.read_bytes()), (f"{i}.cls", b"%d" % i))])


def write_rows(out, rows):
    """Of (label, file, path): with a file of None a row has only the path."""
    reference("AUDIO", "huggingface", out, *(x for label, file, path in rows for x in
                                            ("-" if label is None else label, "-" if file is None else file, path)))
    return out


# ROWS OF ARROW FILES


@pytest.fixture(scope="module")
def types(tmp_path_factory):
    out = tmp_path_factory.mktemp("types") / "types.arrow"
    reference("AUDIO", "types", out)
    return out


def test_values_of_all_types(types):
    row, nulls = feedline.arrow(types).finite()
    assert row["bool"] is True and row["int8"] == -3 and row["uint64"] == 2**64 - 1 and row["float"] == 0.5
    assert row["text"] == "é" and row["bytes"] == b"\0\1" and row["struct"] == {"a": 5, "b": "x"}
    assert row["ints"].dtype == np.int64 and row["ints"].tolist() == [1, 2]
    assert row["bytes_list"].dtype == np.uint8 and row["bytes_list"].tolist() == [7]
    assert row["day"] == np.datetime64("1969-12-31") and row["stamp"] == np.datetime64("1970-01-01T00:01:30")
    assert row["span"] == np.timedelta64(12, "ns")
    assert row["strings"] == ["ab", "c", None] and row["map"] == [("k", 1), ("k", 2)]
    assert set(nulls.values()) == {None} and list(nulls) == list(row) and len(row) == 15
    assert [list(r) for r in feedline.arrow(types, ["text", "int8"]).finite()] == [["text", "int8"]] * 2
    assert [r["struct.b"] for r in feedline.arrow(types, ["struct.b"]).finite()] == ["x", None]
    with pytest.raises(feedline.PipelineError, match="no column `other`; the file has `bool`"):
        next(feedline.arrow(types, ["other"]).finite())


@pytest.fixture
def rows(sounds, tmp_path):
    """A folder as Hugging Face writes it: two files of four and two rows, and one that isn't data."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, of in enumerate((range(4), range(4, 6))):
        write_rows(folder / f"data-{number}.arrow", [(None if i == 1 else i, sounds[i], f"{i}.wav") for i in of])
    write_rows(folder / "cache-1.arrow", [(9, sounds[0], "0.wav")])
    return folder


def test_a_folder_stands_for_its_data_files(rows):
    items = list(feedline.arrow(rows, shuffle=False).finite())
    assert [r["label"] for r in items] == [0, None, 2, 3, 4, 5]
    assert [r["audio"]["path"] for r in items] == [f"{i}.wav" for i in range(6)]
    assert items[0]["audio"]["bytes"].startswith(b"RIFF")
    assert len(feedline.arrow(rows)) == len(feedline.arrow([rows]).finite()) == 6
    assert feedline.arrow(rows)[-1]["label"] == 5
    shuffled = [r["label"] for r in feedline.arrow(rows).global_shuffle().finite(seed=1)]
    assert sorted(shuffled, key=str) == [0, 2, 3, 4, 5, None] and shuffled != [0, None, 2, 3, 4, 5]
    loader = feedline.arrow(rows).shuffle(3).infinite(seed=2)
    before = take(loader, 4)
    resumed = feedline.arrow(rows).shuffle(3).infinite(seed=2)
    resumed.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert [r["label"] for r in take(resumed, 9)] == [r["label"] for r in take(loader, 9)] and len(before) == 4


def test_sounds_of_rows_are_decoded(rows, sounds):
    decode = feedline.audio.decode(sample_rate=8000, clip_seconds=0.3)
    expected = [decode(os.fspath(s)) for s in sounds]
    assert expected[0].shape == (2400,) and expected[0].dtype == np.float32
    items = list(feedline.arrow(rows, shuffle=False).map(decode, workers=3).finite())
    assert all(np.array_equal(a["audio"], b) for a, b in zip(items, expected))
    assert [r["label"] for r in items] == [0, None, 2, 3, 4, 5]
    batch = next(feedline.arrow(rows, ["audio"]).map(decode).batch(6).finite())
    assert batch["audio"].shape == (6, 2400)
    assert np.array_equal(decode(sounds[3].read_bytes()), expected[3])
    assert np.array_equal(decode({"wav": sounds[3].read_bytes(), "x": 1})["wav"], expected[3])
    assert np.array_equal(next(feedline.files([sounds[2]]).map(decode).finite()), expected[2])
    augmented = lambda seed, workers: [r["audio"].tobytes() for r in feedline.arrow(rows, shuffle=False).map(
        feedline.audio.decode(sample_rate=8000, clip_seconds=0.2, augment=True), workers=workers).finite(seed=seed, epochs=2)]
    assert augmented(1, 1) == augmented(1, 5) != augmented(2, 1)
    assert len(set(augmented(1, 1))) == 12
    for wrong in (dict(sample_rate=0), dict(clip_seconds=0), dict(clip_seconds=1e-9), dict(clip_seconds=float("nan"))):
        with pytest.raises(ValueError):
            feedline.audio.decode(**wrong)


@pytest.mark.parametrize("absolute", [False, True])
def test_files_that_rows_only_name_are_read(absolute, sounds, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for s in sounds:
        (folder / s.name).write_bytes(s.read_bytes())
    write_rows(folder / "data-0.arrow", [(i, None, folder / s.name if absolute else s.name) for i, s in enumerate(sounds)])
    write_rows(tmp_path / "bytes.arrow", [(i, s, s.name) for i, s in enumerate(sounds)])
    options = dict(sample_rate=8000, clip_seconds=0.2, n_mels=8, n_fft=256, hop_length=80, infinite=False, augment=False, shuffle=False)
    check_same(list(feedline.audio.Loader(folder, **options)), list(feedline.audio.Loader(tmp_path / "bytes.arrow", **options)))
    (folder / "2.wav").unlink()
    loader = feedline.audio.Loader(folder, on_error="skip", **options)
    assert indices(list(loader)) == [0, 1, 3, 4, 5]
    assert [f["sample"] for f in loader.failures()] == [2] and "2.wav" in loader.failures()[0]["message"]


def test_a_row_with_neither_bytes_nor_path_is_a_failure_that_says_so(types):
    options = dict(sample_rate=8000, clip_seconds=0.2, n_mels=8, n_fft=256, hop_length=80, infinite=False)
    with pytest.raises(feedline.PipelineError, match="neither the file's bytes nor its path"):
        next(feedline.audio.Loader(types, audio="nothing", label="int8", **options))
    with pytest.raises(feedline.PipelineError, match="has no column `nowhere`, only bool, int8"):
        next(feedline.arrow(types).map(feedline.audio.decode(audio="nowhere")).finite())


def test_paths_of_rows_name_files_only(sounds, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.wav").write_bytes(sounds[0].read_bytes())
    names = ["pipe", "", "nothing.wav", "/dev/zero", ".", "a.wav"]
    write_rows(tmp_path / "data-0.arrow", [(i, None, name) for i, name in enumerate(names)])
    loader = feedline.arrow(tmp_path).map(feedline.audio.decode(sample_rate=8000, clip_seconds=0.1), workers=2).finite(on_error="skip")
    assert [r["label"] for r in loader] == [5]
    assert len(loader.failures()) == 5
    assert all("isn't a file" in f["message"] or "path is empty" in f["message"] for f in loader.failures())
    after = feedline.arrow(tmp_path).map(lambda r: r).map(feedline.audio.decode(sample_rate=8000, clip_seconds=0.1)).finite(on_error="skip")
    assert [r["label"] for r in after] == [5]
    texts = feedline.arrow(tmp_path, ["audio.path"]).map(feedline.audio.decode(sample_rate=8000, audio="audio.path"))
    assert len(list(texts.finite(on_error="skip"))) == 1
    write_rows(tmp_path / "data-0.arrow", [(0, None, "https://host/a.wav"), (1, None, "")])
    assert [r["audio"]["path"] for r in feedline.arrow(tmp_path).finite()] == ["https://host/a.wav", ""]


def test_rows_are_decoded_after_other_functions(rows, sounds, tmp_path):
    decode = feedline.audio.decode(sample_rate=8000, clip_seconds=0.3)
    expected = [decode(os.fspath(s)) for s in sounds]
    kept = list(feedline.arrow(rows, shuffle=False).filter(lambda r: r["label"] != 2).map(lambda r: r).map(decode).finite())
    assert all(np.array_equal(r["audio"], expected[i]) for r, i in zip(kept, (0, 1, 3, 4, 5)))
    assert np.array_equal(decode(feedline.arrow(rows)[2])["audio"], expected[2])
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "x.wav").write_bytes(sounds[1].read_bytes())
    write_rows(tmp_path / "only" / "data-0.arrow", [(1, None, "x.wav")])
    row = feedline.arrow(tmp_path / "only")[0]
    assert row["audio"] == {"bytes": None, "path": os.fspath(tmp_path / "only" / "x.wav")}
    assert np.array_equal(decode(row)["audio"], expected[1])
    data = sounds[1].read_bytes()
    for other in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert np.array_equal(decode(other), expected[1])
    with pytest.raises(feedline.PipelineError, match="the item has no member `audio;wav;flac;ogg;mp3`, only x, y"):
        next(feedline.dataset([{"x": 1, "y": 2}]).map(decode).finite())
    with pytest.raises(feedline.PipelineError, match="PathLike"):
        next(feedline.dataset([3.5]).map(decode).finite())


def test_a_damaged_row_is_a_failure_of_the_source(types, tmp_path):
    data = types.read_bytes()
    offsets = struct.pack("<iii", 0, 2, 2)  # of the column `text`: "é" and null
    assert offsets in data
    (tmp_path / "bad.arrow").write_bytes(data.replace(offsets, struct.pack("<iii", 0, 99_999, 99_999), 1))
    loader = feedline.arrow(tmp_path / "bad.arrow").finite(on_error="skip")
    items = list(loader)
    assert len(items) == 1 and set(items[0].values()) == {None}
    failure, = loader.failures()
    assert "bad.arrow: row 0, column `text`" in failure["message"]
    with pytest.raises(feedline.PipelineError, match="max_row_bytes"):
        next(feedline.arrow(types, "strings", max_row_bytes=10).finite())
    assert list(feedline.arrow(tmp_path / "bad.arrow", ["int8"]).finite()) == [{"int8": -3}, {"int8": None}]


def test_folders_may_have_wildcards_in_their_names(rows, tmp_path):
    for name in ("run[1]", "a*b", "what?"):
        shutil.copytree(rows, tmp_path / name)
        assert len(feedline.arrow(tmp_path / name)) == 6
    with pytest.raises(feedline.PipelineError, match="no column `nothing`"):
        next(feedline.arrow(rows, "nothing").finite())


# IMAGES


def image_loader(data, **options):
    return feedline.images.Loader(data, **dict(dict(size=16, batch_size=4, infinite=False, crop="center", shuffle=False), **options))


def test_images_of_rows_arrive_as_those_of_shards(photos, shard, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    write_rows(folder / "data-0.arrow", [(i, p if i % 2 else None, p) for i, p in enumerate(photos)])
    expected = list(image_loader(shard))
    check_same(list(image_loader(folder, image="audio")), expected)
    check_same(list(image_loader(folder / "*.arrow", image="nothing;audio", label="label")), expected)
    assert len(image_loader(folder, image="audio")) == 3
    assert image_loader(folder, image="audio", label=None)
    with pytest.raises(feedline.PipelineError, match="no column `jpg;jpeg;png;webp;image`, only audio, label"):
        next(image_loader(folder))
    decoded = list(feedline.arrow(folder, shuffle=False).map(feedline.images.decode(size=16, crop="center", image="audio")).batch(4).finite())
    assert all(np.array_equal(a["audio"], b["image"]) for a, b in zip(decoded, expected))
    assert len(list(image_loader(folder, image="audio", memory_budget=20_000_000))) == 3


@pytest.fixture
def classes(photos, tmp_path):
    """Ten images of three classes, of which one has none, and other files."""
    root = tmp_path / "classes"
    for i, p in enumerate(photos):
        folder = root / ("ant" if i < 4 else "bee/inner" if i < 6 else "cow")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (f"{i}.JPG" if i == 2 else f"{i}.jpg")).write_bytes(p.read_bytes())
    (root / "bat").mkdir()
    (root / "bat" / "readme.txt").write_text("no image")
    (root / "0.jpg").write_bytes(b"not in a class")
    return root


def test_folders_of_classes(classes, shard):
    batches = list(image_loader(classes))
    assert np.concatenate([b["label"] for b in batches]).tolist() == [0] * 4 + [2] * 2 + [3] * 4
    assert indices(batches) == list(range(10)) and len(image_loader(classes)) == 3
    assert np.array_equal(batches[0]["image"], next(image_loader(shard))["image"])
    assert next(image_loader(classes, label=None))["label"].tolist() == [-1] * 4
    runs = [indices(list(image_loader(classes, shuffle=True, seed=seed, epochs=2))) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2] and sorted(runs[0][:10]) == list(range(10)) and runs[0][:10] != runs[0][10:]
    ranks = [indices(list(image_loader(classes, shuffle=True, seed=1, rank=r, world_size=2))) for r in range(2)]
    assert sorted(ranks[0] + ranks[1]) == list(range(10))
    loader = image_loader(classes, crop="random", infinite=True, shuffle=True, seed=4, batch_size=3)
    take(loader, 2)
    resumed = image_loader(classes, crop="random", infinite=True, shuffle=True, seed=4, batch_size=3, n_workers=1)
    resumed.load_state_dict(loader.state_dict())
    check_same(take(loader, 5), take(resumed, 5))
    (classes / "cow" / "7.jpg").write_bytes(b"damaged")
    assert len(list(image_loader(classes, memory_budget=20_000_000, on_error="skip"))) == 3
    (classes / "cow" / "loop").symlink_to("..")
    (classes / "cow" / "again").symlink_to(classes / "cow")
    (classes / "cow" / "broken").symlink_to("nowhere.jpg")
    for a, b in (("one", "two"), ("two", "one")):
        (classes / "bat" / a).mkdir()
        (classes / "bat" / a / "link").symlink_to(f"../{b}")
    failing = image_loader(classes, on_error="skip")
    assert indices(list(failing)) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert failing.failures()[0]["origin"].endswith("cow/7.jpg")
    (classes / "cow" / "99.jpg").write_bytes(b"new")
    with pytest.raises(ValueError, match="changed|grown"):
        next(image_loader(classes, crop="random", infinite=True, shuffle=True, seed=4, batch_size=3, resume=loader.state_dict()))


def test_a_folder_without_images_or_rows(tmp_path, types):
    with pytest.raises(ValueError, match="either Arrow files or others"):
        image_loader([types, tmp_path / "a.tar"])
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="has no .*arrow and no folders with"):
        image_loader(tmp_path)
    with pytest.raises(ValueError, match="one folder of classes"):
        image_loader([tmp_path, tmp_path])


def test_augmentations(photos, shard):
    images = lambda **options: np.concatenate([b["image"] for b in image_loader(shard, **options)])
    plain = images()
    for options in (dict(color_jitter=(0.4, 0.4, 0.4, 0.1)), dict(rand_augment=(2, 15)), dict(erasing=1.0)):
        for dtype, layout in (("float32", "NCHW"), ("uint8", "NHWC")):
            changed = images(dtype=dtype, layout=layout, seed=3, n_workers=1, **options)
            assert np.array_equal(changed, images(dtype=dtype, layout=layout, seed=3, n_workers=8, **options))
            assert not np.array_equal(changed, images(dtype=dtype, layout=layout, seed=4, **options))
            assert not np.array_equal(changed, images(dtype=dtype, layout=layout))
    # Colours are changed before normalization: without a change the images are those without the option, but for rounding.
    assert np.allclose(images(color_jitter=(0, 0, 0, 0)), plain, atol=1e-5)
    assert np.allclose(images(rand_augment=(0, 9)), plain, atol=1e-5)
    dark = images(color_jitter=(1.0, 0, 0, 0), mean=(0, 0, 0), std=(1, 1, 1))
    assert dark.min() >= 0 and dark.max() <= 1
    erased = images(erasing=1.0)
    assert (erased == 0).any(axis=(1, 2, 3)).all()  # the mean
    decode = feedline.images.decode(size=16, crop="center", erasing=1.0)
    assert (decode(os.fspath(photos[0])) == 0).any()
    for wrong, words in ((dict(color_jitter=(-1, 0, 0, 0)), "color_jitter"), (dict(color_jitter=(0, 0, 0, 0.6)), "hue"),
                         (dict(rand_augment=(2, 31)), "magnitude"), (dict(rand_augment=(-1, 3)), "changes"),
                         (dict(erasing=1.5), "erasing"), (dict(mixup=-1), "mixup"), (dict(mixup=float("nan")), "mixup"),
                         (dict(mixup=0.2, dtype="uint8"), "mixup is for")):
        with pytest.raises(ValueError, match=words):
            image_loader(shard, **wrong)
    state = image_loader(shard, infinite=True)
    next(state)
    with pytest.raises(ValueError, match="erasing"):
        image_loader(shard, infinite=True, erasing=0.5, resume=state.state_dict())


def test_mixup_mixes_pairs_of_a_batch(shard):
    plain = list(image_loader(shard, batch_size=5, epochs=2))
    mixed = list(image_loader(shard, batch_size=5, mixup=0.4, seed=2, epochs=2))
    check_same(mixed, list(image_loader(shard, batch_size=5, mixup=0.4, seed=2, n_workers=1, epochs=2)))
    weights = [b["weight"][0] for b in mixed]
    assert len(set(weights)) == 4 and all(0 <= w <= 1 for w in weights)
    for a, b in zip(plain, mixed):
        weight = b["weight"][0]
        assert (b["weight"] == weight).all() and b["weight"].dtype == np.float32
        assert np.array_equal(b["label"], a["label"]) and np.array_equal(b["other_label"], a["label"][::-1])
        assert np.allclose(b["image"], weight * a["image"] + (1 - weight) * a["image"][::-1], atol=1e-5)
    assert list(plain[0]) == ["image", "label", "index"]


def test_fields_of_shards_may_be_images(photos, tmp_path):
    array = io.BytesIO()
    np.save(array, np.arange(3))
    shard = write_tar(tmp_path / "a.tar", [m for i, p in enumerate(photos[:4]) for m in (
        (f"{i}.jpg", p.read_bytes()), (f"{i}.mask.jpg", p.read_bytes()), (f"{i}.json", b'{"a": 1}'), (f"{i}.txt", "é".encode()),
        (f"{i}.cls", b"%d\n" % i), (f"{i}.npy", array.getvalue()))])
    decode = feedline.images.decode(size=16, crop="center")
    fields = {"jpg": decode, "mask.jpg": decode, "json": dict, "txt": str, "cls": int, "npy": np.ndarray}
    items = list(feedline.tar(shard, fields=fields, workers=3, shuffle=False).finite())
    assert [list(item) for item in items] == [["__key__", *fields]] * 4
    assert all(np.array_equal(item["jpg"], decode(os.fspath(p))) and np.array_equal(item["mask.jpg"], item["jpg"])
               for item, p in zip(items, photos))
    assert items[3]["json"] == {"a": 1} and items[3]["txt"] == "é" and items[3]["cls"] == 3 and items[3]["npy"].tolist() == [0, 1, 2]
    assert next(feedline.tar(shard, fields={"jpg": "image"}).finite())["jpg"].shape == (3, 224, 224)
    with pytest.raises(feedline.PipelineError, match="png"):
        next(feedline.tar(shard, fields={"png": "image"}).finite())
    item = feedline.tar(shard, fields={"jpg": decode, "cls": int})[2]
    assert item["cls"] == 2 and np.array_equal(item["jpg"], decode(os.fspath(photos[2])))
    with pytest.raises(TypeError, match="isn't \"image\""):
        feedline.tar(shard, fields={"jpg": "jpeg"})
    with pytest.raises(TypeError, match="must be a dict"):
        feedline.tar(shard, fields="jpg")
    several = next(feedline.tar(shard, fields={"png;jpg": decode, "class;cls": int, "npy": np.array}, shuffle=False).finite())
    assert np.array_equal(several["png;jpg"], decode(os.fspath(photos[0]))) and several["class;cls"] == 0
    assert several["npy"].tolist() == [0, 1, 2]


# SEVERAL SOURCES


def with_random(n, context):
    return n, context.rng.random()


def tenfold(n):
    return n * 10


def combined(kind, *parts):
    if kind == "mix":
        return feedline.mix(*((part, number + 1) for number, part in enumerate(parts)))
    return {"concat": feedline.concat, "zip": feedline.zip}[kind](*parts)


def test_concat_mix_and_zip():
    a, b = numbers(0, 5), numbers(100, 103)
    assert list(feedline.concat(a, b).finite(epochs=2)) == [0, 1, 2, 3, 4, 100, 101, 102] * 2
    assert list(feedline.zip(a, b).finite()) == [(0, 100), (1, 101), (2, 102)]
    mixed = list(feedline.mix((a, 2), (b, 1)).finite(seed=4))
    assert sorted(mixed) == [0, 1, 2, 3, 4, 100, 101, 102] and [n for n in mixed if n < 50] == [0, 1, 2, 3, 4]
    assert mixed != list(feedline.mix((a, 2), (b, 1)).finite(seed=5)) or mixed != list(feedline.mix((a, 2), (b, 1)).finite(seed=6))
    endless = take(feedline.mix((a, 9), (b, 1)).infinite(seed=1), 1000)
    assert 800 < sum(n < 50 for n in endless) < 970
    assert len(feedline.concat(a, b).finite()) == 8 and len(feedline.zip(a, b).batch(2).finite()) == 2
    assert len(feedline.mix((a, 1), (b, 1)).finite()) == 8
    with pytest.raises(TypeError, match="no length"):
        len(feedline.mix((a, 1), (b, 1), when_one_ends="stop").finite())
    assert list(feedline.mix((a, 1), (numbers(0, 0), 1), when_one_ends="stop").finite(seed=1)) in ([], [0], [0, 1], [0, 1, 2], [0, 1, 2, 3])


def test_concat_and_zip_of_sources_with_positions_have_positions(tmp_path):
    for name, data in (("a", "abcde"), ("b", "xyz")):
        (tmp_path / name).write_text(data)
    a, b = feedline.records(tmp_path / "a", 1), feedline.records(tmp_path / "b", 1)
    one, both = feedline.concat(a, b), feedline.zip(a, b)
    assert len(one) == 8 and len(both) == 3 and one[-1] == b"z" and both[1] == (b"b", b"y")
    everything = list(one.global_shuffle().finite(seed=3))
    assert sorted(everything) == [b"%c" % c for c in b"abcdexyz"] and everything != sorted(everything)
    assert sorted(both.global_shuffle().finite(seed=3)) == [(b"a", b"x"), (b"b", b"y"), (b"c", b"z")]
    assert list(one.sampled([7, 0]).finite()) == [b"z", b"a"]
    assert list(feedline.zip(numbers(0, 3), feedline.dataset("abc")).sampled([2, -3]).finite()) == [(2, "c"), (0, "a")]
    assert len(list(both.finite(memory_budget=10_000_000))) == 3
    ranks = [list(one.global_shuffle().finite(seed=3, rank=r, world_size=2)) for r in range(2)]
    assert sorted(ranks[0] + ranks[1]) == sorted(everything)
    datasets = feedline.concat(numbers(0, 3), feedline.dataset("ab"), feedline.dataset([7]))
    assert len(datasets) == 6 and [datasets[i] for i in (0, 3, -1)] == [0, "a", 7]
    assert sorted(map(str, datasets.global_shuffle().finite(seed=1))) == ["0", "1", "2", "7", "a", "b"]
    assert feedline.zip(numbers(0, 3), feedline.dataset("ab"))[1] == (1, "b")
    with pytest.raises(TypeError, match="read by position"):
        feedline.concat(numbers(0, 3).map(str))[0]


@pytest.mark.parametrize("workers", [1, 7])
def test_the_sources_of_a_concat_mix_or_zip_have_functions_of_their_own(workers, photos):
    a, b = numbers(0, 6).map(tenfold, workers=workers).map(with_random), numbers(100, 104)
    names = feedline.files(photos[:4]).map(feedline.images.decode(size=8, crop="center"), workers=workers)
    items = list(feedline.concat(a, b.map(str, workers=2)).finite(seed=1))
    assert [i[0] if isinstance(i, tuple) else i for i in items] == [0, 10, 20, 30, 40, 50, "100", "101", "102", "103"]
    assert len({i[1] for i in items[:6]}) == 6
    assert items == list(feedline.concat(a, b.map(str, workers=2)).finite(seed=1)) != list(feedline.concat(a, b.map(str)).finite(seed=2))
    pairs = list(feedline.zip(names, b.map(tenfold)).finite())
    assert [n for _, n in pairs] == [1000, 1010, 1020, 1030] and pairs[0][0].shape == (3, 8, 8)
    mixed = list(feedline.mix((names, 1), (b, 1)).finite(seed=1))
    assert [m for m in mixed if isinstance(m, int)] == [100, 101, 102, 103] and sum(isinstance(m, np.ndarray) for m in mixed) == 4
    twice = numbers(0, 20).map(with_random).map(lambda item, context: (item[1], context.rng.random()))
    assert all(x != y for x, y in feedline.concat(twice).finite(seed=1))  # each function has random numbers of its own
    loader = feedline.concat(a, b.map(str)).finite()
    list(loader)
    assert any("range + tenfold + with_random or range + str" in s["name"] for s in loader.metrics()["stages"])


def test_the_functions_of_all_parts_share_their_workers_and_order():
    together = threading.Barrier(5)

    def meet(n):
        together.wait(20)
        return n
    assert list(feedline.concat(numbers(0, 5).map(meet, workers=2), numbers(5, 7).map(tenfold, workers=3)).finite()) == [0, 1, 2, 3, 4, 50, 60]
    unordered = feedline.concat(numbers(0, 5).map(tenfold, ordered=False), numbers(5, 7)).infinite()
    next(unordered)
    with pytest.raises(RuntimeError, match="unordered"):
        unordered.state_dict()
    feedline.concat(numbers(0, 5).map(tenfold), numbers(5, 7)).infinite().state_dict()


def test_any_source_can_be_a_part(photos, tmp_path, rows):
    (tmp_path / "lines").write_text("one\ntwo\n")
    (tmp_path / "records").write_bytes(b"abcd")
    shard = write_tar(tmp_path / "a.tar", [("1.txt", b"x"), ("2.txt", b"y")])
    parts = [feedline.files(photos[:2]), feedline.lines(tmp_path / "lines"), feedline.records(tmp_path / "records", 2), feedline.tar(shard),
             feedline.tar(shard, fields={"txt": str}), feedline.iterate(["i", "j"]), feedline.iterate(lambda: iter("kl")),
             feedline.arrow(rows, ["label"], shuffle=False), numbers(0, 2), feedline.dataset([7, 8], shuffle=True),
             numbers(0, 9).sampled([3, 5])]
    def plain(items):
        return sorted(map(repr, items))
    with pytest.raises(ValueError, match="other stages"):
        feedline.concat(*parts)
    parts.pop()
    expected = [item for p in parts for item in p.finite()]
    assert plain(feedline.concat(*parts).finite()) == plain(expected)
    assert plain(feedline.mix(*((p, 1) for p in parts)).finite(seed=1)) == plain(expected)
    assert len(list(feedline.zip(*parts).finite())) == 2
    with pytest.raises(TypeError, match="read by position"):
        feedline.concat(*parts)[0]
    whole = plain(feedline.mix(*((p, 1) for p in parts)).shuffle(5).finite(seed=3))
    ranks = [list(feedline.mix(*((p, 1) for p in parts)).shuffle(5).finite(seed=3, rank=r, world_size=3, remainder="keep")) for r in range(3)]
    assert plain(itertools.chain(*ranks)) == whole


@pytest.mark.parametrize("kind", ["concat", "mix", "zip"])
def test_several_sources_are_resumed(kind, tmp_path):
    shard = write_tar(tmp_path / "a.tar", [(f"{i}.txt", b"%d" % i) for i in range(9)])
    parts = [feedline.iterate(range(12)).map(tenfold, workers=2), feedline.tar(shard, fields={"txt": str}), feedline.iterate(Counting(11)),
             feedline.dataset(range(50, 60), shuffle=True).map(with_random)]
    make = lambda workers: combined(kind, *parts).shuffle(6).map(str, workers=workers).infinite(seed=5)
    expected = take(make(1), 60)
    for at in (0, 1, 7, 8, 20, 33, 45):
        loader = make(3)
        assert take(loader, at) == expected[:at]
        resumed = make(5)
        resumed.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
        assert take(resumed, 15) == expected[at:at + 15]


@pytest.mark.parametrize("kind", ["concat", "zip", "mix"])
def test_a_resume_reads_the_parts_once_more_and_not_for_each_sample(kind):
    reads = [0]

    def items():
        for n in range(2000):
            reads[0] += 1
            yield n
    part = feedline.iterate(items)
    loader = combined(kind, part, part).shuffle(300).infinite(seed=1)
    take(loader, 900)
    state = loader.state_dict()
    expected = take(loader, 5)
    loader.close()
    reads[0] = 0
    resumed = combined(kind, part, part).shuffle(300).infinite(seed=1, resume=state)
    assert take(resumed, 5) == expected
    resumed.close()
    assert reads[0] < 20_000


@pytest.mark.parametrize("kind", ["concat", "zip", "mix"])
@pytest.mark.parametrize("runs", [False, True])
def test_what_the_parts_refer_to_is_collected(kind, runs):
    class Owner:
        def __init__(self):
            part = feedline.iterate(self.items).map(self.double)
            self.train = combined(kind, part, part)
            self.loader = self.train.finite()
            if runs:
                list(self.loader)

        def items(self):
            return iter([1, 2, 3])

        def double(self, n):
            return 2 * n
    alive = weakref.ref(Owner())
    for _ in range(3):
        gc.collect()
    assert alive() is None


@pytest.mark.parametrize("kind", ["concat", "zip", "mix"])
def test_threads_may_run_one_pipeline_at_once(kind):
    part = feedline.iterate(lambda: iter(range(5)))
    p = combined(kind, part, part)

    def run():
        for _ in range(100):
            loader = p.finite()
            next(loader)
            loader.close()
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(p.finite())) == (5 if kind == "zip" else 10)


def test_wrong_parts(tmp_path):
    a = numbers(0, 3)
    (tmp_path / "words").write_text("a b")
    texts = feedline.lines(tmp_path / "words")
    for wrong, error, words in (
            (lambda: feedline.concat(), ValueError, "1 to 255 sources, not 0"), (lambda: feedline.zip(), ValueError, "1 to 255"),
            (lambda: feedline.mix(), ValueError, "1 to 255"), (lambda: feedline.concat([a]), TypeError, "takes pipelines"),
            (lambda: feedline.mix(a), TypeError, "pairs"), (lambda: feedline.mix((a, 0)), ValueError, "weight"),
            (lambda: feedline.mix((a, float("inf"))), ValueError, "weight"), (lambda: feedline.mix((a, "x")), ValueError, "x"),
            (lambda: feedline.mix((a, 1), when_one_ends="end"), ValueError, "when_one_ends must be"),
            (lambda: feedline.concat(a.filter(bool)), ValueError, "number 0 has other stages"),
            (lambda: feedline.concat(a, a.shuffle(3)), ValueError, "number 1 has other stages"),
            (lambda: feedline.concat(feedline.concat(a, a)), ValueError, "number 0 is a concat"),
            (lambda: feedline.zip(feedline.zip(texts), texts), ValueError, "not a concat"),
            (lambda: feedline.concat(feedline.concat(texts, texts).global_shuffle(), texts), ValueError, "not a concat"),
            (lambda: feedline.mix((feedline.concat(a, a), 1)), ValueError, "number 0 is a concat"),
            (lambda: feedline.zip(feedline.concat(a, a).global_shuffle()), ValueError, "number 0 is a concat"),
            (lambda: feedline.concat(a, a).sampled([0]), ValueError, "sampled.. can't follow"),
            (lambda: feedline.concat(a.map(tenfold)).global_shuffle(), ValueError, "read by position")):
        with pytest.raises(error, match=words):
            wrong()


def test_a_failure_of_a_part_names_its_function_and_leaves_the_others(tmp_path):
    def bad(n):
        if n == 2:
            raise KeyError("two")
        return n
    loader = feedline.concat(numbers(0, 4).map(bad), numbers(10, 12)).finite(on_error="skip")
    assert list(loader) == [0, 1, 3, 10, 11]
    assert [(f["stage"], f["sample"]) for f in loader.failures()] == [("map `range + bad or range`", 2)] and "KeyError" in loader.failures()[0]["message"]
    assert list(feedline.zip(numbers(0, 4).map(bad), numbers(10, 14)).finite(on_error="skip")) == [(0, 10), (1, 11), (3, 13)]
    with pytest.raises(feedline.PipelineError, match="two") as raised:
        list(feedline.mix((numbers(0, 4).map(bad), 1)).finite())
    assert isinstance(raised.value.__cause__, KeyError)


# SAMPLES BY POSITION


def test_a_source_is_a_map_style_dataset(photos, tmp_path):
    shard = write_tar(tmp_path / "a.tar", [(f"{i}.cls", b"%d" % i) for i in range(5)])
    source = feedline.tar(shard, fields={"cls": int})
    assert len(source) == 5 and source[3]["cls"] == 3 and source[-1]["cls"] == 4 and source[np.int64(0)]["cls"] == 0
    assert bool(feedline.iterate([])) and bool(feedline.files(photos))
    for wrong in (5, -6):
        with pytest.raises(IndexError, match=f"no sample {wrong}: the source has 5"):
            source[wrong]
    with pytest.raises(IndexError, match=f"no sample {2**70}"):
        source[2**70]
    for wrong in ("a", 1.5, None):
        with pytest.raises(TypeError):
            source[wrong]
    for other in (source.map(str), source.shuffle(3), feedline.iterate([1])):
        with pytest.raises(TypeError, match="read by position"):
            other[0]
        with pytest.raises(TypeError, match="read by position"):
            len(other)
    assert feedline.files(photos)[2] == os.fspath(photos[2])
    assert feedline.records(photos[0], 2)[0] == b"\xff\xd8"
    assert feedline.dataset("abc")[1] == "b"


class Sampler:
    """As those of torch.utils.data.distributed."""

    def __init__(self, count):
        self.count, self.epoch = count, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(np.random.default_rng(self.epoch).permutation(self.count).tolist())

    def __len__(self):
        return self.count


def test_a_sampler_chooses_the_samples(tmp_path):
    shard = write_tar(tmp_path / "a.tar", [(f"{i}.cls", b"%d" % i) for i in range(9)])
    make = lambda workers: feedline.tar(shard, fields={"cls": int}).sampled(Sampler(9), workers=workers).map(lambda item: item["cls"])
    items = list(make(3).finite(epochs=2))
    assert items == [*Sampler(9), *np.random.default_rng(1).permutation(9).tolist()] and len(make(1).finite()) == 9
    assert list(feedline.dataset("abcd").sampled([3, 0, 0]).finite()) == ["d", "a", "a"]
    loader = make(2).infinite()
    before = take(loader, 13)
    resumed = make(4).infinite()
    resumed.load_state_dict(loader.state_dict())
    assert before == items[:13] and take(resumed, 5) == items[13:18]
    failing = feedline.dataset("abcd").sampled([0, 9, 1]).finite(on_error="skip")
    assert list(failing) == ["a", "b"] and "no sample 9" in failing.failures()[0]["message"]
    for wrong, words in (("x", "cannot be interpreted as an integer"), (2**70, f"no sample {2**70}")):
        with pytest.raises(feedline.PipelineError, match=words):
            next(feedline.dataset("abcd").sampled([wrong]).finite())
    with pytest.raises(ValueError, match="read by position"):
        feedline.iterate("ab").sampled([0])


# TOKENS


def test_windows_of_sequences():
    p = feedline.dataset([[1, 2, 3], np.array([4, 5], np.uint16), (), [6, 7, 8]])
    assert [w.tolist() for w in p.windows(3).finite()] == [[1, 2, 3], [4, 5, 6]]
    assert [w.tolist() for w in p.windows(3, drop_last=False).finite()] == [[1, 2, 3], [4, 5, 6], [7, 8]]
    assert [w.tolist() for w in p.windows(4, separator=0, stride=3).finite()] == [[1, 2, 3, 0], [0, 4, 5, 0], [0, 6, 7, 8]]
    for single in (range(5), np.arange(5), np.arange(5, dtype=np.uint64)):
        assert [w.tolist() for w in feedline.dataset(single).windows(2).finite()] == [[0, 1], [2, 3]]
    batch = next(p.windows(2).batch(4).finite())
    assert batch.dtype == np.int64 and batch.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    for wrong in ([["a"]], [[0.5]], ["text"], [[[1]]], [2**63], [[1, 2**64 - 1]], [2**80]):
        with pytest.raises(feedline.PipelineError, match="whole numbers"):
            next(feedline.dataset(wrong).windows(1).finite())
    for wrong in (dict(length=0), dict(length=3, stride=0), dict(length=-1)):
        with pytest.raises(ValueError):
            p.windows(**wrong)


@pytest.fixture
def documents(tmp_path):
    for shard in range(2):
        lines = [json.dumps({"text": f"{shard} {i} " * (i + 1), "tokens": [shard, i] * (i + 1)}) for i in range(20)]
        (tmp_path / f"{shard}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "*.jsonl"


def words(text):
    return [int(word) for word in text.split()]


def test_windows_of_documents(documents):
    make = lambda **options: feedline.text.Windows(documents, 8, **dict(dict(batch_size=4, infinite=False, shuffle=False), **options))
    batches = list(make(field="tokens"))
    stream = [n for shard in range(2) for i in range(20) for n in [shard, i] * (i + 1)]
    assert np.concatenate([b["tokens"] for b in batches]).ravel().tolist() == stream[:len(stream) // 8 * 8]
    assert batches[0]["tokens"].dtype == batches[0]["index"].dtype == np.int64
    check_same(list(make(tokenize=words)), batches)
    check_same(list(make(tokenize=words, num_workers=5)), batches)
    separated = np.concatenate([b["tokens"] for b in make(tokenize=words, separator=99)]).ravel()
    assert (separated == 99).sum() in (39, 40)
    shuffled = lambda seed, **options: feedline.text.Windows(documents, 8, batch_size=4, tokenize=words, seed=seed, **options)
    loader = shuffled(1, n_workers=3)
    before = take(loader, 12)
    check_same(before, take(shuffled(1), 12))
    resumed = shuffled(1)
    resumed.load_state_dict(loader.state_dict())
    check_same(take(loader, 40), take(resumed, 40))
    assert not np.array_equal(before[0]["tokens"], batches[0]["tokens"])
    with pytest.raises(TypeError, match="length"):
        len(make(field="tokens"))
    check_same(list(make(tokenize=words, max_line_bytes=500, memory_budget=10_000_000)), batches)
    with pytest.raises(ValueError, match="max_line_bytes of lines"):
        make(tokenize=words, memory_budget=10_000_000).memory()
    for limit in (100, 300):  # of a line; of tokens
        with pytest.raises(feedline.PipelineError, match="jsonl.*(line|bytes)"):
            list(make(tokenize=words, max_line_bytes=limit))


def test_documents_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": [1, 2]}\n\n \nno json\n{"other": 1}\n[1]\n{"text": [3, "x"]}\n{"text": [3, 4]}\n')
    loader = feedline.text.Windows(path, 2, field="text", shuffle=False, infinite=False, on_error="skip")
    assert next(loader)["tokens"].tolist() == [[1, 2], [3, 4]]
    messages = [f["message"] for f in loader.failures()]
    assert len(messages) == 4 and "JSON" in messages[0] and "field `text`" in messages[1] and "field `text`" in messages[2]
    assert all("a.jsonl" in f["origin"] for f in loader.failures())
    (tmp_path / "b.bin").write_bytes(bytes(8))
    with pytest.raises(ValueError, match="tokenize, separator and max_line_bytes are for documents"):
        feedline.text.Windows(tmp_path / "b.bin", 2, tokenize=words)
    for files, options in (([path, tmp_path / "b.bin"], {}), ([tmp_path / "*l"], {}), ([path], dict(dtype="uint8")), ([path], dict(dtype="x"))):
        with pytest.raises(ValueError, match="documents|dtype"):
            feedline.text.Windows(files, 2, field="text", **options)
    (tmp_path / "c.JSONL").write_text('{"text": [1, 2]}')
    assert next(feedline.text.Windows(tmp_path / "c.JSONL", 2, infinite=False))["tokens"].tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="tokenize must be a function"):
        feedline.text.Windows(tmp_path / "c.JSONL", 2, tokenize=3)
    (tmp_path / "d.jsonl").write_text('{"text": "1 2"}')
    with pytest.raises(feedline.PipelineError, match="give a function as tokenize"):
        next(feedline.text.Windows(tmp_path / "d.jsonl", 2))
    state = feedline.text.Windows(tmp_path / "c.JSONL", 2)
    next(state)
    with pytest.raises(ValueError, match="field"):
        next(feedline.text.Windows(tmp_path / "c.JSONL", 2, field="b", resume=state.state_dict()))
