# SPDX-License-Identifier: MIT
# feedline.images: its class has the documented parameters and yields what the pipeline in C++ yields.
import base64
import hashlib
import http.server
import io
import os
import pathlib
import pickle
import re
import struct
import subprocess
import sys
import tarfile
import threading
import zlib

import numpy as np
import pytest

import feedline.images
from support import check_same, indices, parameters_of, resident_bytes, run_program, take

COUNT = 10
PACKAGE = pathlib.Path(feedline.__file__).parents[1]
ALL = [*range(7), *(1 << 40 | row for row in range(3))]  # the indices of the samples


def reference(*arguments):
    run_program("FEEDLINE_IMAGE_REFERENCE", *arguments)


def write_shard(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
        for name, contents in members:
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            shard.addfile(info, io.BytesIO(contents))
    return str(path)


def sample(jpegs, i):
    return [(f"{i}.jpg", jpegs[i]), (f"{i}.cls", b"%d\n" % (i * i)), (f"{i}.txt", b"-%d" % i)]


@pytest.fixture(scope="session")
def jpegs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jpegs")
    reference("jpegs", folder, COUNT)
    return [(folder / f"{i}.jpg").read_bytes() for i in range(COUNT)]


@pytest.fixture(scope="session")
def shards(jpegs, tmp_path_factory):
    """Two shards of seven and three samples."""
    folder = tmp_path_factory.mktemp("shards")
    return [write_shard(folder / f"{name}.tar", [m for i in samples for m in sample(jpegs, i)])
            for name, samples in (("0", range(7)), ("1", range(7, 10)))]


def small(shards, **options):
    options = dict(dict(batch_size=4, shuffle_buffer_size=6, shuffle_min_size=3, n_workers=3, size=24), **options)
    return feedline.images.Loader(shards, **options)


def evaluation(shards, **options):
    return small(shards, infinite=False, crop="center", **options)


def in_order(shards, **options):
    return evaluation(shards, shuffle_buffer_size=1, shuffle_min_size=1, **options)


def pixels(batches):
    return np.concatenate([b["image"] for b in batches])


def test_the_parameters_have_these_names_and_defaults():
    names, keywords = parameters_of(feedline.images.Loader)
    assert names == ["shards", "seed=0", "batch_size=64", "shuffle_buffer_size=10000", "shuffle_min_size=1", "n_workers=8",
                     "size=224", "crop='random'", "scale=[0.08, 1.0]", "ratio=[0.75, 1.3333333333333333]", "resize=None",
                     "flip=None", "mean=None", "std=None", "dtype='float32'", "layout='NCHW'",
                     "image='jpg;jpeg;png;webp;image'", "label='cls;label'", "drop_last=False", "cache_dir=None",
                     "cache_bytes=100000000000", "infinite=True", "on_notice=None", "num_workers=None", "shuffle=None",
                     "keep_index=False", "color_jitter=None", "rand_augment=None", "erasing=0.0", "mixup=0.0"]
    assert keywords == ["epochs=None", "first_epoch=None", "rank=None", "world_size=None", "remainder='drop'", "by_sample=False", "on_error='fail'",
                        "failure_limit=1000", "on_failure=None", "memory_budget=0", "resume=None", "allow_grown_data=False",
                        "allow_other_options=False", "epoch=False", "fields='dict'"]


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("layout, shape", [("NCHW", (4, 3, 24, 24)), ("NHWC", (4, 24, 24, 3))])
def test_a_batch_is_a_dict_of_arrays(shards, dtype, layout, shape):
    batch = next(small(shards, dtype=dtype, layout=layout))
    assert list(batch) == ["image", "label", "index"]
    assert batch["image"].shape == shape and batch["image"].dtype == dtype and batch["image"].flags.c_contiguous
    assert batch["label"].shape == batch["index"].shape == (4,)
    assert batch["label"].dtype == batch["index"].dtype == np.int64


def test_layouts_types_and_normalization_agree(shards):
    bytes_ = pixels(in_order(shards, dtype="uint8", layout="NHWC"))
    assert np.array_equal(pixels(in_order(shards, dtype="uint8")), bytes_.transpose(0, 3, 1, 2))
    plain = pixels(in_order(shards, layout="NHWC", mean=(0, 0, 0), std=(1, 1, 1)))
    assert plain.min() >= 0 and plain.max() <= 1 and np.abs(plain * 255 - bytes_).max() <= 0.501
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    assert np.allclose(pixels(in_order(shards, layout="NHWC")), (plain - mean) / std, atol=1e-5)
    own = pixels(in_order(shards, layout="NHWC", mean=(0.5, 0.5, 0.5), std=np.array([0.5, 0.25, 2])))
    assert np.allclose(own, (plain - 0.5) / [0.5, 0.25, 2], atol=1e-5)


def test_a_flip_exchanges_left_and_right(shards):
    assert np.array_equal(pixels(in_order(shards, flip=1)), pixels(in_order(shards))[:, :, :, ::-1])
    pairs = zip(pixels(in_order(shards, flip=0.5, epochs=4)), pixels(in_order(shards, epochs=4)))
    flipped = [np.array_equal(a, b[:, :, ::-1]) for a, b in pairs]
    assert 5 < sum(flipped) < 35


def test_the_center_crop_is_that_of_the_resized_image(shards):
    assert np.array_equal(pixels(in_order(shards)), pixels(in_order(shards, resize=27)))
    assert not np.array_equal(pixels(in_order(shards, resize=24)), pixels(in_order(shards)))


def test_random_crops_obey_scale(shards):
    narrow = pixels(in_order(shards, dtype="uint8")).astype(int)
    whole = pixels(small(shards, infinite=False, shuffle_buffer_size=1, shuffle_min_size=1, scale=(1, 1), flip=0, dtype="uint8"))
    part = pixels(small(shards, infinite=False, shuffle_buffer_size=1, shuffle_min_size=1, scale=(0.1, 0.1), flip=0, dtype="uint8"))
    assert np.abs(whole - narrow).mean() < np.abs(part - narrow).mean()


def test_labels_come_from_any_member(shards):
    labels = [i * i for i in range(COUNT)]
    assert np.concatenate([b["label"] for b in in_order(shards)]).tolist() == labels
    assert np.concatenate([b["label"] for b in in_order(shards, label="txt")]).tolist() == [-i for i in range(COUNT)]
    assert np.concatenate([b["label"] for b in in_order(shards, label=None)]).tolist() == [-1] * COUNT


SIZES = ["batch_size", "shuffle_buffer_size", "shuffle_min_size", "n_workers", "size", "resize"]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1, 10**15])
def test_a_wrong_size_is_a_value_error_that_names_it(shards, name, value):
    if (name, value) == ("shuffle_min_size", 0):  # no shuffling
        small(shards, shuffle_min_size=0)
        return
    with pytest.raises(ValueError, match=rf"^{name} must be .*, not {value}"):
        small(shards, **{name: value})


@pytest.mark.parametrize("options, words", [
    (dict(shuffle_buffer_size=100, shuffle_min_size=101), "shuffle_min_size 101 is above shuffle_buffer_size 100"),
    (dict(resize=23), "resize 23 is below size 24"),
    (dict(crop="corner"), 'crop must be "random" or "center", not "corner"'),
    (dict(dtype="float64"), 'dtype must be "float32" or "uint8"'),
    (dict(layout="CHW"), 'layout must be "NCHW" or "NHWC"'),
    (dict(flip=1.5), "flip must be a probability"), (dict(flip=float("nan")), "flip must be"),
    (dict(scale=(0, 1)), "scale must be"), (dict(scale=(0.5, 0.1)), "scale must be"), (dict(ratio=(1, float("inf"))), "ratio must be"),
    (dict(mean=(123.7, 116.3, 103.5)), "mean must be"), (dict(std=(0, 1, 1)), "std must be"),
    (dict(std=(1, 1, float("nan"))), "std must be"), (dict(dtype="uint8", mean=(0, 0, 0)), "mean and std are for"),
    (dict(on_error="keep"), "on_error"), (dict(rank=1), "rank and world_size")])
def test_other_wrong_values_are_value_errors(shards, options, words):
    with pytest.raises(ValueError, match=words):
        small(shards, **options)


def test_shards_that_are_missing(shards, tmp_path):
    with pytest.raises(ValueError, match="^shards is empty"):
        feedline.images.Loader([])
    with pytest.raises(ValueError, match="listed twice"):
        small([shards[0], shards[0]])
    with pytest.raises(RuntimeError, match=r"no file matches .*none-\*.tar"):
        small(tmp_path / "none-*.tar")
    with pytest.raises(feedline.images.PipelineError, match="none.tar: No such file"):
        next(small([tmp_path / "none.tar"]))
    with pytest.raises(TypeError, match="shards"):
        small(7)
    with pytest.raises(TypeError, match="mean"):
        small(shards, mean=(1, 2))


def test_evaluation_yields_each_sample_once_in_each_pass(shards):
    loader = evaluation(shards)
    passes = [list(loader) for _ in range(3)]
    for batches in passes:
        assert [len(b["label"]) for b in batches] == [4, 4, 2]
        assert sorted(indices(batches)) == ALL
        for b in batches:
            assert b["label"].tolist() == [ALL.index(i) ** 2 for i in b["index"]]
    assert len({str(indices(batches)) for batches in passes}) == 3
    assert [len(b["label"]) for b in evaluation(shards, drop_last=True)] == [4, 4]
    assert indices(in_order(pathlib.Path(shards[0]).parent / "{0,1}.tar")) == ALL


def test_an_evaluation_has_the_same_order_in_each_pass(jpegs, tmp_path):
    for shard in range(4):
        write_shard(tmp_path / f"{shard}.tar", [m for i in (0, 1) for m in sample(jpegs, 2 * shard + i)])
    for options in (dict(), dict(epochs=2), dict(first_epoch=3), dict(shuffle_min_size=0),
                    dict(shuffle_buffer_size=5, shuffle_min_size=0)):
        loader = evaluation(tmp_path / "*.tar", **dict(dict(shuffle_buffer_size=1, shuffle_min_size=1), **options))
        passes = [np.concatenate([b["label"] for b in loader]).tolist() for _ in range(3)]
        assert passes == 3 * [options.get("epochs", 1) * [i * i for i in range(8)]]
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)  # within a pass
    assert np.concatenate([b["label"] for b in loader]).tolist() == [i * i for i in range(4, 8)]
    shuffled = evaluation(tmp_path / "*.tar", shuffle_buffer_size=2, shuffle_min_size=1)
    assert len({str(indices(list(shuffled))) for _ in range(4)}) == 4


def test_shuffle_and_num_workers_are_understood_as_in_pytorch(shards):
    loader = evaluation(shards, shuffle=False, num_workers=0)
    for _ in range(3):
        assert indices(loader) == ALL
    check_same(take(small(shards, num_workers=2), 3), take(small(shards, n_workers=5, shuffle=True), 3))
    with pytest.raises(ValueError, match="num_workers must be from 1 to"):
        small(shards, num_workers=10**6)


def test_the_length_is_the_number_of_batches(shards, tmp_path):
    assert len(evaluation(shards)) == 3 and len(evaluation(shards, batch_size=3)) == 4
    assert len(evaluation(shards, batch_size=3, drop_last=True)) == 3 and len(small(shards, epochs=2)) == 6
    with pytest.raises(TypeError, match="no length"):
        len(small(shards))
    folder = pathlib.Path(shards[0]).parent
    assert not list(folder.glob("*.index"))
    assert len(evaluation(shards, keep_index=True)) == 3 and len(list(folder.glob("*.index"))) == 2
    for index in folder.glob("*.index"):
        index.unlink()
    with pytest.raises(OSError, match="missing.tar"):
        len(evaluation(str(tmp_path / "missing.tar")))


def test_epochs_make_the_loader_finite(shards):
    assert len(indices(small(shards, epochs=2))) == 20 and small(shards, first_epoch=5).epoch == 5
    with pytest.raises(ValueError, match="epochs is for a finite run"):
        small(shards, epochs=2, infinite=True)


def test_batches_may_have_the_epochs_of_their_samples(shards):
    batches = take(small(shards, epoch=True, shuffle=False), 5)
    assert list(batches[0]) == ["image", "label", "index", "epoch"]
    assert np.concatenate([b["epoch"] for b in batches]).tolist() == [0] * 10 + [1] * 10


@pytest.mark.parametrize("name, value, words", [
    ("size", 16, "size=24, here it is 16"), ("crop", "center", "crop='random', here it is 'center'"),
    ("flip", 0.0, "flip=None, here it is 0.0"), ("layout", "NHWC", "layout='NCHW', here it is 'NHWC'")])
def test_a_state_of_other_images_is_refused_unless_allowed(shards, name, value, words):
    loader = small(shards)
    next(loader)
    state = loader.state_dict()
    with pytest.raises(ValueError, match=words):
        small(shards, resume=state, **{name: value})
    order = np.concatenate([b["index"] for b in take(loader, 2)]).tolist()
    allowed = small(shards, resume=state, allow_other_options=True, **{name: value})
    assert np.concatenate([b["index"] for b in take(allowed, 2)]).tolist() == order


def test_messages_have_no_names_of_cpp(shards):
    with pytest.raises(RuntimeError, match="2 files can't be divided among 3 ranks.*by_sample=True") as caught:
        next(small(shards, rank=0, world_size=3))
    assert "::" not in str(caught.value)


def test_a_loop_over_epochs_may_be_interrupted_between_them(shards):
    loader = small(shards, infinite=False)
    whole = [list(loader) for _ in range(3)]
    loader = small(shards, infinite=False)
    seen = [list(loader)]
    resumed = small(shards, infinite=False)
    resumed.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    for ours, theirs in zip(seen + [list(resumed) for _ in range(2)], whole):
        check_same(ours, theirs)


def test_a_run_keeps_to_a_memory_budget(shards):
    whole = list(evaluation(shards))
    loader = evaluation(shards, memory_budget=20_000_000)
    text = loader.memory()
    assert "decode" in text and "?" not in text and "0 bytes" not in text.splitlines()[-1]
    check_same(list(loader), whole)
    assert len(take(small(shards, memory_budget=20_000_000, dtype="uint8", shuffle_min_size=0), 20)) == 20
    with pytest.raises(ValueError, match="memory_budget of .* is too small"):
        evaluation(shards, memory_budget=1000, size=2000, resize=2000).memory()
    with pytest.raises(ValueError, match="memory_budget of .* is too small"):
        next(evaluation(shards, memory_budget=10_000_000, size=2000, resize=2000))


def test_names_and_labels_may_have_any_bytes(tmp_path):
    name = os.fsdecode(b"/nowhere/\xff")
    for pattern, error in ((name + "*.tar", RuntimeError), (2 * [name + ".tar"], ValueError)):
        with pytest.raises(error) as raised:
            small(pattern)
        assert name in str(raised.value) and type(raised.value) is error
    long = "/nowhere/" + 200 * "\u00e9"
    with pytest.raises(RuntimeError) as raised:
        small(long + "*.tar")
    assert str(raised.value).encode() and "/nowhere/\u00e9\u00e9" in str(raised.value)
    for before in range(4):  # a character of four bytes around the end of what is shown
        label = (36 + before) * "a" + 9 * "\U0001f642"
        shard = write_shard(tmp_path / f"{before}.tar", [("0.jpg", b""), ("0.cls", label.encode())])
        with pytest.raises(feedline.images.PipelineError) as raised:
            next(in_order(shard))
        assert str(raised.value).encode()

def test_training_goes_on_for_ever_and_augments_each_epoch_anew(shards):
    seen = {}
    for batch in take(small(shards), 25):
        for index, image in zip(batch["index"].tolist(), batch["image"]):
            seen.setdefault(index, []).append(image.tobytes())
    assert sorted(seen) == ALL
    assert all(len(s) > 5 and len(set(s)) > len(s) - 2 for s in seen.values())


def test_a_seed_repeats_the_run_with_any_number_of_workers(shards):
    whole = take(small(shards, seed=3), 9)
    for workers in (1, 8):
        check_same(take(small(shards, seed=3, n_workers=workers), 9), whole)
    assert indices(take(small(shards, seed=4), 9)) != indices(whole)


@pytest.mark.parametrize("options", [dict(), dict(dtype="uint8", infinite=False, epochs=4)])
def test_a_state_continues_in_the_middle_of_an_epoch(shards, options):
    whole = take(small(shards, seed=3, **options), 12)
    for count in (0, 1, 4, 11):
        loader = small(shards, seed=3, **options)
        seen = take(loader, count)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        other = small(shards, seed=3, n_workers=1, **options)
        other.load_state_dict(state)
        check_same(seen + take(other, 12 - count), whole)
        check_same(seen + take(small(shards, seed=3, resume=state, **options), 12 - count), whole)


def test_random_crops_are_those_of_the_pipeline_in_cpp(shards, tmp_path):
    reference("train", tmp_path / "out", 11, 9, *shards)
    ours = b"".join(b["image"].tobytes() for b in take(small(shards, seed=11), 9))
    assert len(ours) == 9 * 4 * 3 * 24 * 24 * 4
    assert ours == (tmp_path / "out").read_bytes()


def test_center_crops_are_those_of_the_pipeline_in_cpp(shards, tmp_path):
    reference("eval", tmp_path / "out", *shards)
    ours = pixels(in_order(shards, dtype="uint8", layout="NHWC")).tobytes()
    assert len(ours) == COUNT * 24 * 24 * 3
    assert ours == (tmp_path / "out").read_bytes()


def test_labels_may_have_white_space_on_either_side(jpegs, tmp_path):
    labels = [b"1", b" 2", b"3\n", b"\t 4 \r\n"]
    members = [m for i, label in enumerate(labels) for m in ((f"{i}.jpg", jpegs[i]), (f"{i}.cls", label))]
    loader = in_order(write_shard(tmp_path / "some.tar", members))
    assert [int(label) for b in loader for label in b["label"]] == [1, 2, 3, 4]


def test_a_bad_sample_is_an_error_that_names_it_or_is_skipped(jpegs, tmp_path):
    members = [*sample(jpegs, 0), ("1.jpg", jpegs[1][:300]), ("1.cls", b"1"), *sample(jpegs, 2), ("3.jpg", jpegs[3]),
               ("3.cls", b"cat"), ("4.jpg", jpegs[4]), ("5.cls", b"5"), ("6.jpg", b""), ("6.cls", b"6"), *sample(jpegs, 7)]
    shard = write_shard(tmp_path / "some.tar", members)
    with pytest.raises(feedline.images.PipelineError, match=r"`decode` .*some.tar: 1.jpg, .cls") as error:
        list(in_order(shard))
    assert error.value.sample == 1 and "some.tar: 1.jpg" in error.value.origin
    told = []
    loader = in_order(shard, on_error="skip", on_failure=told.append)
    assert indices(loader) == [0, 2, 7]
    assert [f["sample"] for f in told] == [1, 3, 4, 5, 6]
    assert "the label in `cls` is `cat`, which isn't an integer" in told[1]["message"]
    assert "cls" in told[2]["message"] and "jpg" in told[3]["message"]
    assert loader.failures() == told
    with pytest.raises(feedline.images.PipelineError, match="4.jpg"):
        list(in_order(shard, on_error="skip", failure_limit=2))
    cut = tmp_path / "cut.tar"
    cut.write_bytes(pathlib.Path(shard).read_bytes()[:700])
    with pytest.raises(feedline.images.PipelineError, match="cut.tar.*cut off"):
        list(in_order(cut))


def test_ranks_may_evaluate_different_numbers_of_samples(shards):
    counts = [len(indices(list(evaluation(shards, rank=rank, world_size=2, remainder="keep")))) for rank in (0, 1)]
    assert sorted(counts) == [3, 7]  # a shard each
    counts = [len(indices(list(evaluation(shards, rank=rank, world_size=3, by_sample=True)))) for rank in range(3)]
    assert counts == [3, 3, 3]


def png(picture):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def check_read(tmp_path, kind, file, picture):
    write_shard(tmp_path / "some.tar", [(f"0.{kind}", file), ("0.cls", b"7")])
    size = len(picture)
    try:
        batch = next(in_order(tmp_path / "some.tar", image=kind, size=size, resize=size, dtype="uint8", layout="NHWC"))
    except feedline.images.PipelineError as error:
        assert f"built without lib{kind}" in str(error)
        pytest.skip(f"built without lib{kind}")
    assert (batch["image"][0] == picture).all() and batch["label"][0] == 7


def test_png_images_are_read_too(tmp_path):
    picture = np.random.default_rng(1).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    check_read(tmp_path, "png", png(picture), picture)


def test_webp_images_are_read_too(tmp_path):
    file = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvB8ABAAdQjyKXp/+BiOh/AAA=")  # 8 x 8 pixels of one colour, without loss
    check_read(tmp_path, "webp", file, np.broadcast_to([200, 30, 60], (8, 8, 3)))


def test_notices_of_shards_arrive(jpegs, tmp_path):
    members = [m for pair in zip(sample(jpegs, 0), sample(jpegs, 1)) for m in pair]
    shard = write_shard(tmp_path / "mixed.tar", members)
    told = []
    list(in_order(shard, on_error="skip", on_notice=told.append))
    assert len(told) == 1 and "mixed.tar" in told[0]
    outcome = subprocess.run(
        [sys.executable, "-c", "import sys, feedline.images\n"
         "def refuse(sentence): raise ValueError('refused')\n"
         "list(feedline.images.Loader(sys.argv[1], infinite=False, on_error='skip', on_notice=refuse))", shard],
        env=dict(os.environ, PYTHONPATH=PACKAGE), capture_output=True, text=True, timeout=120)
    assert outcome.returncode == 0 and "refused" in outcome.stderr  # no thread of the run could raise it


def test_the_stub_takes_what_the_loader_takes(tmp_path):
    subprocess.run([sys.executable, os.environ["FEEDLINE_STUBS"], feedline._native.__file__, str(tmp_path / "_native.pyi")], check=True)
    text = (tmp_path / "_native/images.pyi").read_text()
    assert "cache_dir: Optional[Union[str, os.PathLike[str]]] = None" in text
    assert "scale: Sequence[float] = [0.08, 1.0]" in text and "mean: Optional[Sequence[float]] = None" in text


def test_memory_stays_flat(shards):
    loader = small(shards, batch_size=64, size=48)
    size = next(loader)["image"].nbytes
    assert size > 1_500_000
    take(loader, 10)
    before = resident_bytes()
    for _ in range(40):
        next(loader)
    assert resident_bytes() - before < 10 * size


class Server(http.server.BaseHTTPRequestHandler):
    """Serves a folder in ranges, as `/name` or as S3's `/bucket/name`."""

    protocol_version = "HTTP/1.1"
    folder = None
    requests = []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.requests.append((self.path, self.headers.get("Range")))
        file = self.folder / pathlib.Path(self.path).name
        if not file.exists():
            self.send_error(404)
            return
        whole = file.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first, last = (int(wanted[1]), min(int(wanted[2] or len(whole)), len(whole) - 1)) if wanted else (0, len(whole) - 1)
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", '"%s"' % hashlib.md5(whole).hexdigest())
        self.send_header("Content-Length", str(last + 1 - first))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(whole[first:last + 1])

    def log_message(self, *_):
        pass


needs_remote = pytest.mark.skipif(os.environ["FEEDLINE_REMOTE"] != "1", reason="feedline::remote isn't built")


@pytest.fixture
def server(shards, monkeypatch):
    for name in ("http_proxy", "all_proxy", "ALL_PROXY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    Server.folder, Server.requests = pathlib.Path(shards[0]).parent, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs=dict(poll_interval=0.01))
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@needs_remote
def test_shards_on_a_web_server_and_in_s3(shards, server, tmp_path):
    whole = take(small(shards, seed=3), 6)
    check_same(take(small(server + "/{0..1}.tar", seed=3), 6), whole)
    check_same(take(small(["s3://bucket/0.tar", "s3://bucket/1.tar"], seed=3), 6), whole)
    assert {"/0.tar", "/1.tar", "/bucket/0.tar", "/bucket/1.tar"} == {path for path, _ in Server.requests}
    with pytest.raises(feedline.images.PipelineError, match="none.tar.*404"):
        list(in_order(server + "/none.tar"))


@needs_remote
def test_shards_on_a_server_are_not_counted(server):
    with pytest.raises(TypeError, match="no length: its shards are on a server"):
        len(evaluation(server + "/{0,1}.tar"))


@needs_remote
def test_a_cache_keeps_what_was_read_from_a_server(shards, server, tmp_path):
    whole = list(in_order(shards))
    options = dict(cache_dir=tmp_path / "cache", cache_bytes=1 << 24)
    check_same(list(in_order(server + "/{0,1}.tar", **options)), whole)
    assert any((tmp_path / "cache").rglob("*"))
    Server.requests.clear()
    check_same(list(in_order(server + "/{0,1}.tar", **options)), whole)
    assert {parts for _, parts in Server.requests} <= {"bytes=0-0"}  # only asks for the versions
    with pytest.raises(ValueError, match="cache_bytes must be from 1 to .*, not 0"):
        small(server + "/0.tar", cache_dir=tmp_path / "cache", cache_bytes=0)


@pytest.mark.skipif(os.environ["FEEDLINE_REMOTE"] == "1", reason="feedline::remote is built")
def test_without_the_component_a_url_is_refused():
    for url in ("https://host/0.tar", "s3://bucket/0.tar"):
        with pytest.raises(ValueError, match="shards: this module was built without feedline::remote"):
            small(url)


def test_shared_photographs_arrive_with_their_labels():
    data = pathlib.Path(os.environ.get("FEEDLINE_TEST_DATA", os.environ["FEEDLINE_TEST_DATA_DEFAULT"])) / "photos"
    if not data.exists():
        pytest.skip(f"no test data in {data}: set FEEDLINE_TEST_DATA")
    labels = np.concatenate([b["label"] for b in evaluation(data / "photos-0000.tar", batch_size=64)])
    assert len(labels) == 64 and len(set(labels.tolist())) == 64
