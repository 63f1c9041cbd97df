# SPDX-License-Identifier: MIT
# feedline.text: windows of the tokens in files.
import numpy as np
import pytest

import feedline.text
from support import check_same, indices, parameters_of, take

COUNTS = 25, 3, 40  # tokens in each file


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    for i, count in enumerate(COUNTS):
        (1000 * i + np.arange(count)).astype(np.uint16).tofile(folder / f"{i}.bin")
    return [str(folder / f"{i}.bin") for i in range(len(COUNTS))]


def windows(files, length=5, **options):
    return feedline.text.Windows(files, length, **dict(dict(batch_size=4, infinite=False), **options))


def in_order(length, stride):
    return [list(range(1000 * i + first, 1000 * i + first + length)) for i, count in enumerate(COUNTS)
            for first in range(0, count - length + 1, stride)]


def rows(batches):
    return [row for b in batches for row in b["tokens"].tolist()]


def test_the_parameters_have_these_names_and_defaults():
    assert parameters_of(feedline.text.Windows)[0] == [
        "files", "length", "stride=None", "dtype='uint16'", "seed=0", "batch_size=64", "shuffle=True", "drop_last=False", "infinite=True",
        "tokenize=None", "field='text'", "separator=None", "n_workers=1", "num_workers=None", "max_line_bytes=None"]


@pytest.mark.parametrize("length, stride", [(5, None), (5, 4), (5, 1), (1, 1), (3, 3), (2, 7), (25, None), (41, None)])
def test_windows_begin_at_each_strideth_token_of_a_file(files, length, stride):
    loader = windows(files, length, stride=stride, shuffle=False)
    expected = in_order(length, stride or length)
    for _ in range(3):
        assert rows(loader) == expected
    shuffled = windows(files, length, stride=stride, seed=3)
    assert len(shuffled) == -(-len(expected) // 4)
    first, second = rows(shuffled), rows(shuffled)
    assert sorted(first) == sorted(second) == expected and (len(expected) < 4 or first != second != expected)


def test_a_batch_is_a_dict_of_arrays(files):
    batch = next(windows(files, shuffle=False))
    assert list(batch) == ["tokens", "index"] and batch["tokens"].dtype == batch["index"].dtype == np.int64
    assert batch["tokens"].shape == (4, 5) and batch["index"].tolist() == [0, 1, 2, 3]
    assert indices(windows(files, shuffle=False))[-1] == 2 << 40 | 7  # the last window of the third file


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_tokens_may_have_any_size(tmp_path, dtype):
    most = np.iinfo(dtype).max
    np.array([0, 1, most, most - 1, 7], dtype).tofile(tmp_path / "a.bin")
    assert rows(windows(tmp_path / "a.bin", 2, dtype=dtype, shuffle=False)) == [[0, 1], [most, most - 1]]


def test_a_state_continues_in_the_middle_of_an_epoch(files):
    options = dict(infinite=True, stride=1, seed=5)
    expected = take(windows(files, **options), 40)
    for count in 0, 1, 14, 15, 16, 33:
        loader = windows(files, **options)
        take(loader, count)
        check_same(take(windows(files, **options, resume=loader.state_dict()), 40 - count), expected[count:])
    state = loader.state_dict()
    with pytest.raises(ValueError, match="stride"):
        next(windows(files, infinite=True, seed=5, stride=2, resume=state))


def test_ranks_share_the_windows(files):
    for shuffle in True, False:
        shares = [rows(windows(files, stride=1, shuffle=shuffle, rank=rank, world_size=3, remainder="keep", by_sample=True))
                  for rank in range(3)]
        assert sorted(sum(shares, [])) == in_order(5, 1)


@pytest.mark.parametrize("length", [513, 1000, 1024, 1025, 2049, 100_000])
def test_windows_may_have_any_length(tmp_path, length):
    np.arange(2 * length, dtype=np.uint32).tofile(tmp_path / "a.bin")
    assert rows(windows(tmp_path / "a.bin", length, dtype="uint32", shuffle=False, memory_budget=10**9)) == [
        list(range(length)), list(range(length, 2 * length))]


def test_a_file_that_became_shorter_is_an_error_and_nothing_outside_is_read(tmp_path):
    names = [tmp_path / f"{i}.bin" for i in range(300)]
    for name in names:
        np.full(4000, 7, np.uint16).tofile(name)
    loader = windows(names, 2000, stride=1, batch_size=1, on_error="skip", failure_limit=10**9, infinite=True)
    next(loader)
    for name in names:
        np.full(2100, 7, np.uint16).tofile(tmp_path / "new")
        (tmp_path / "new").rename(name)
    for batch in take(loader, 200):
        assert (batch["tokens"] == 7).all()
    assert any("become shorter" in f["message"] or "fewer windows" in f["message"] for f in loader.failures())


def test_other_ends_of_files(tmp_path):
    (tmp_path / "odd.bin").write_bytes(bytes(2 * 10 + 1))  # half a token is left out
    assert len(rows(windows(tmp_path / "odd.bin"))) == 2
    (tmp_path / "empty.bin").write_bytes(b"")
    assert rows(windows(tmp_path / "empty.bin")) == []
    with pytest.raises(RuntimeError, match="missing.bin"):
        next(windows(tmp_path / "missing.bin"))


@pytest.mark.parametrize("options, words", [
    (dict(length=0, stride=1), "length must be from 1 to"), (dict(stride=0), "stride must be from 1 to"), (dict(batch_size=-1), "batch_size"),
    (dict(dtype="int16"), "dtype must be")])
def test_wrong_values_are_value_errors(files, options, words):
    with pytest.raises(ValueError, match=words):
        feedline.text.Windows(files, **dict(dict(length=5), **options))
    with pytest.raises(ValueError, match="files is empty"):
        windows([])
