# SPDX-License-Identifier: MIT
# feedline.audio: its class has the promised parameters and yields what the pipeline in C++ yields.
import os
import pathlib
import pickle
import subprocess
import sys
import wave

import numpy as np
import pytest

import feedline.audio
from support import check_same, indices, parameters_of, resident_bytes, run_program, take

LABELS = [3, 1, 4, None, 5, 9, 2, 6, -1, 5]
MISSING = [-1 if label is None else label for label in LABELS]


def reference(*arguments):
    run_program("FEEDLINE_AUDIO_REFERENCE", *arguments)


def write_rows(out, labels_and_files):
    reference("arrow", out, *(x for label, file in labels_and_files for x in ("-" if label is None else label, file)))
    return str(out)


@pytest.fixture(scope="session")
def sounds(tmp_path_factory):
    """Noise of different lengths, at two rates."""
    folder = tmp_path_factory.mktemp("sounds")
    random = np.random.default_rng(7)
    for i in range(len(LABELS)):
        rate = 8000 if i % 3 else 11025
        samples = random.integers(-9000, 9000, int(rate * (0.2 + 0.1 * i)), dtype=np.int16)
        with wave.open(str(folder / f"{i}.wav"), "wb") as file:
            file.setparams((1, 2, rate, len(samples), "NONE", ""))
            file.writeframes(samples.tobytes())
    return [folder / f"{i}.wav" for i in range(len(LABELS))]


@pytest.fixture(scope="session")
def clips(sounds, tmp_path_factory):
    """Two Arrow files of seven and three clips."""
    folder = tmp_path_factory.mktemp("clips")
    rows = list(zip(LABELS, sounds))
    return [write_rows(folder / "0.arrow", rows[:7]), write_rows(folder / "1.arrow", rows[7:])]


ALL = [*range(7), *(1 << 40 | row for row in range(3))]  # the indices of the clips


def small(files, **options):
    options = dict(dict(batch_size=4, shuffle_buffer_size=6, shuffle_min_size=3, sample_rate=8000, clip_seconds=0.5, n_mels=16,
                        n_fft=256, hop_length=80, n_workers=3, raw_channel_size=5), **options)
    return feedline.audio.Loader(files, **options)


def evaluation(files, **options):
    return small(files, infinite=False, augment=False, **options)


def test_the_parameters_have_these_names_and_defaults():
    names, keywords = parameters_of(feedline.audio.Loader)
    assert names == ["arrow_files", "seed=0", "batch_size=64", "shuffle_buffer_size=10000", "shuffle_min_size=8000",
                     "sample_rate=32000", "clip_seconds=5.0", "n_mels=128", "n_fft=1024", "hop_length=320", "n_workers=8",
                     "raw_channel_size=256", "infinite=True", "augment=True", "num_workers=None", "shuffle=None", "on_notice=None",
                     "audio='audio'", "label='label'"]
    assert keywords == ["epochs=None", "first_epoch=None", "rank=None", "world_size=None", "remainder='drop'", "by_sample=False", "on_error='fail'", "failure_limit=1000",
                        "on_failure=None", "memory_budget=0", "resume=None", "allow_grown_data=False",
                        "allow_other_options=False", "epoch=False", "fields='dict'"]


def test_the_parameters_are_taken_by_position(clips):
    loader = feedline.audio.Loader(clips, 0, 4, 6, 3, 8000, 0.5, 16, 256, 80, 3, 5, False, False)
    check_same(list(loader), list(evaluation(clips)))


def test_a_batch_is_a_dict_of_arrays(clips):
    batch = next(small(clips))
    assert list(batch) == ["spectrogram", "label", "index"]
    assert batch["spectrogram"].shape == (4, 16, 51) and batch["spectrogram"].dtype == np.float32
    assert batch["label"].shape == batch["index"].shape == (4,)
    assert batch["label"].dtype == batch["index"].dtype == np.int64
    assert batch["spectrogram"].flags.c_contiguous
    levels = batch["spectrogram"].reshape(4, -1)
    assert (levels.max(1) - levels.min(1) <= 80.001).all() and (levels.max(1) > levels.min(1)).all()


def test_the_default_sizes_give_128_mels_and_501_frames(clips):
    loader = feedline.audio.Loader(clips, batch_size=2, shuffle_buffer_size=1, shuffle_min_size=1)
    assert next(loader)["spectrogram"].shape == (2, 128, 501)


@pytest.mark.parametrize("name", [
    "batch_size", "shuffle_buffer_size", "shuffle_min_size", "sample_rate", "clip_seconds", "n_mels", "n_fft", "hop_length",
    "n_workers", "raw_channel_size"])
@pytest.mark.parametrize("value", [0, -1, 10**15])
def test_a_wrong_size_is_a_value_error_that_names_it(clips, name, value):
    if (name, value) == ("shuffle_min_size", 0):  # no shuffling
        small(clips, shuffle_min_size=0)
        return
    with pytest.raises(ValueError, match=rf"^{name} must be .*, not {value}"):
        small(clips, **{name: value})


@pytest.mark.parametrize("options, words", [
    (dict(shuffle_buffer_size=100, shuffle_min_size=101), "shuffle_min_size 101 is above shuffle_buffer_size 100"),
    (dict(clip_seconds=float("nan")), "clip_seconds"),
    (dict(clip_seconds=0.001), "clip_seconds .* too short for n_fft 256"),
    (dict(on_error="keep"), "on_error"),
    (dict(rank=1), "rank and world_size")])
def test_other_wrong_values_are_value_errors(clips, options, words):
    with pytest.raises(ValueError, match=words):
        small(clips, **options)


def test_files_that_are_missing(clips, tmp_path):
    with pytest.raises(ValueError, match="^arrow_files is empty"):
        feedline.audio.Loader([])
    with pytest.raises(ValueError, match="0.arrow` is listed twice"):
        small([clips[0], clips[0]])
    with pytest.raises(RuntimeError, match=r"no file matches .*none-\*.arrow"):
        small(tmp_path / "none-*.arrow")
    with pytest.raises(TypeError, match="arrow_files"):
        small(7)
    with pytest.raises(feedline.audio.PipelineError, match="none.arrow: No such file"):
        next(small([tmp_path / "none.arrow"]))


def test_files_may_be_texts_paths_and_patterns(clips):
    whole = list(evaluation(clips))
    folder = pathlib.Path(clips[0]).parent
    check_same(list(evaluation(str(folder / "*.arrow"))), whole)
    check_same(list(evaluation(folder / "{0,1}.arrow")), whole)
    check_same(list(evaluation(tuple(map(pathlib.Path, clips)))), whole)


def test_evaluation_yields_each_clip_once_in_each_pass(clips):
    loader = evaluation(clips)
    passes = [list(loader) for _ in range(3)]
    for batches in passes:
        assert [len(b["label"]) for b in batches] == [4, 4, 2]
        assert sorted(indices(batches)) == ALL
        for b in batches:
            assert b["label"].tolist() == [MISSING[ALL.index(i)] for i in b["index"]]
    assert len({str(indices(batches)) for batches in passes}) == 3
    with pytest.raises(TypeError, match="no length"):
        len(small(clips))


@pytest.mark.parametrize("options", [dict(shuffle=False), dict(shuffle_buffer_size=1, shuffle_min_size=None), dict(shuffle_min_size=0)])
def test_an_evaluation_has_the_same_order_in_each_pass(clips, options):
    loader = evaluation(clips, num_workers=2, **options)
    for n in range(4):
        assert indices(loader) == ALL and loader.epoch == n


def test_the_length_is_the_number_of_batches(clips, tmp_path):
    assert len(evaluation(clips)) == 3 and len(evaluation(clips, batch_size=3, epochs=2)) == 8
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    for loader, words in (small(clips), "no length"), (evaluation(pipe), "no length: rows of a pipe"):
        with pytest.raises(TypeError, match=words):
            len(loader)


def test_columns_may_have_other_names(clips):
    check_same(list(evaluation(clips, shuffle=False)), list(evaluation(clips, shuffle=False, audio="audio", label="label")))
    with pytest.raises(RuntimeError, match="sound"):
        next(evaluation(clips, audio="sound"))


def test_a_state_of_other_spectrograms_is_refused_unless_allowed(clips):
    loader = evaluation(clips)
    next(loader)
    with pytest.raises(ValueError, match="n_mels=16, here it is 8"):
        evaluation(clips, n_mels=8, resume=loader.state_dict())
    assert next(evaluation(clips, n_mels=8, resume=loader.state_dict(), allow_other_options=True))["spectrogram"].shape[1] == 8


def test_evaluation_needs_no_minimum_in_the_shuffle_buffer(clips):
    small_sizes = dict(sample_rate=8000, clip_seconds=0.5, n_mels=16, n_fft=256, hop_length=80, infinite=False, augment=False)
    for options in (dict(shuffle_buffer_size=1000, shuffle_min_size=0, n_workers=4), dict(shuffle_buffer_size=1000), dict(),
                    dict(shuffle_buffer_size=10, shuffle_min_size=None)):
        assert sorted(indices(list(feedline.audio.Loader(clips, **small_sizes, **options)))) == ALL
    with pytest.raises(ValueError, match="shuffle_min_size 8000 is above shuffle_buffer_size 1000"):
        feedline.audio.Loader(clips, shuffle_buffer_size=1000, shuffle_min_size=8000)

def test_training_goes_on_for_ever_and_augments_each_epoch_anew(clips):
    seen = {}
    for batch in take(small(clips), 25):
        for index, spectrogram in zip(batch["index"].tolist(), batch["spectrogram"]):
            seen.setdefault(index, []).append(spectrogram.tobytes())
    assert sorted(seen) == ALL
    assert all(len(s) > 5 and len(set(s)) == len(s) for s in seen.values())


def test_without_augmentation_a_clip_is_the_same_in_each_epoch(clips):
    seen = {}
    for batch in take(small(clips, augment=False), 25):
        for index, spectrogram in zip(batch["index"].tolist(), batch["spectrogram"]):
            seen.setdefault(index, set()).add(spectrogram.tobytes())
    assert sorted(seen) == ALL and all(len(s) == 1 for s in seen.values())


def test_a_seed_repeats_the_run_with_any_number_of_workers(clips):
    whole = take(small(clips, seed=3), 9)
    for workers in (1, 8):
        check_same(take(small(clips, seed=3, n_workers=workers, raw_channel_size=1), 9), whole)
    assert indices(take(small(clips, seed=4), 9)) != indices(whole)


@pytest.mark.parametrize("options", [dict(), dict(augment=False, infinite=False, epochs=4)])
def test_a_state_continues_in_the_middle_of_an_epoch(clips, options):
    whole = take(small(clips, seed=3, **options), 12)
    for count in (0, 1, 4, 11):
        loader = small(clips, seed=3, **options)
        seen = take(loader, count)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        check_same(seen + take(small(clips, seed=3, resume=state, n_workers=1, **options), 12 - count), whole)
        other = small(clips, seed=3, **options)
        take(other, 2)
        other.load_state_dict(state)
        check_same(seen + take(other, 12 - count), whole)


def test_a_state_of_another_run_is_refused(clips):
    loader = small(clips, seed=3)
    next(loader)
    with pytest.raises(ValueError, match="seed"):
        next(small(clips, seed=4, resume=loader.state_dict()))
    with pytest.raises(ValueError, match="can't resume"):
        next(small(clips[:1], seed=3, resume=loader.state_dict()))


@pytest.mark.parametrize("augment", [True, False])
def test_spectrograms_are_those_of_the_pipeline_in_cpp(clips, tmp_path, augment):
    reference("train" if augment else "eval", tmp_path / "out", 11, 9, *clips)
    ours = b"".join(b["spectrogram"].tobytes() for b in take(small(clips, seed=11, augment=augment), 9))
    assert len(ours) == 9 * 4 * 16 * 51 * 4
    assert ours == (tmp_path / "out").read_bytes()


def test_a_clip_may_be_flac_ogg_or_mp3(tmp_path):
    reference("sounds", tmp_path / "tone")
    kinds = [kind for kind in ["wav", "flac", "ogg", "mp3"] if (tmp_path / f"tone.{kind}").exists()]
    rows = write_rows(tmp_path / "rows.arrow", [(label, tmp_path / f"tone.{kind}") for label, kind in enumerate(kinds)])
    batches = take(small(rows, augment=False), 6)
    sounds = {kinds[label]: b["spectrogram"][i] for b in batches for i, label in enumerate(b["label"])}
    assert len(sounds) == len(kinds) >= 3
    assert (sounds["flac"] == sounds["wav"]).all()  # neither loses anything
    assert np.corrcoef(sounds["ogg"].flat, sounds["wav"].flat)[0, 1] > 0.98
    reference("eval", tmp_path / "out", 0, 6, rows)
    assert b"".join(b["spectrogram"].tobytes() for b in batches) == (tmp_path / "out").read_bytes()
    assert "mp3" not in sounds or np.ptp(sounds["mp3"]) > 1


def test_a_bad_clip_is_an_error_that_names_it_or_is_skipped(sounds, tmp_path):
    bad = tmp_path / "bad.wav"
    bad.write_bytes(sounds[1].read_bytes()[:500])
    none = tmp_path / "none.wav"
    none.write_bytes(b"")
    file = write_rows(tmp_path / "some.arrow", [(0, sounds[0]), (1, bad), (2, sounds[2]), (3, none), (4, sounds[4])])
    options = dict(shuffle_buffer_size=1, shuffle_min_size=1)
    with pytest.raises(feedline.audio.PipelineError, match=r"`spectrogram` .*some.arrow: row 1") as error:
        list(evaluation(file, **options))
    assert error.value.sample == 1 and error.value.origin.endswith("some.arrow: row 1")
    told = []
    loader = evaluation(file, on_error="skip", on_failure=told.append, **options)
    assert indices(list(loader)) == [0, 2, 4]
    assert [f["sample"] for f in loader.failures()] == [f["sample"] for f in told] == [1, 3]
    with pytest.raises(feedline.audio.PipelineError, match="row 3"):
        list(evaluation(file, on_error="skip", failure_limit=1, **options))


def test_a_bad_file_is_an_error_that_names_it_or_is_skipped(clips, tmp_path):
    text = tmp_path / "text.arrow"
    text.write_text("no Arrow file")
    with pytest.raises(feedline.audio.PipelineError, match="text.arrow"):
        list(evaluation([text, clips[0]]))
    assert sorted(indices(list(evaluation([text, clips[0]], on_error="skip")))) == [1 << 40 | row for row in range(7)]


def test_memory_stays_flat(clips):
    loader = small(clips, batch_size=64, n_mels=64, clip_seconds=0.2, hop_length=16)
    size = next(loader)["spectrogram"].nbytes
    assert size > 1_500_000
    take(loader, 10)
    before = resident_bytes()
    for _ in range(40):
        next(loader)
    assert resident_bytes() - before < 10 * size


def test_shared_clips_arrive_with_their_labels():
    data = pathlib.Path(os.environ.get("FEEDLINE_TEST_DATA", os.environ["FEEDLINE_TEST_DATA_DEFAULT"])) / "arrow/audio"
    if not data.exists():
        pytest.skip(f"no test data in {data}: set FEEDLINE_TEST_DATA")
    labels = np.concatenate([b["label"] for b in evaluation(data / "digits-hf-000.arrow")])
    assert len(labels) == 120 and set(labels.tolist()) <= set(range(10))


def test_the_page_of_training_learns_and_continues_after_a_kill(tmp_path):
    data = pathlib.Path(os.environ.get("FEEDLINE_TEST_DATA") or os.environ["FEEDLINE_TEST_DATA_DEFAULT"]) / "arrow/audio/digits-hf-000.arrow"
    if not data.exists():
        pytest.skip("the test data isn't there")
    page = pathlib.Path(__file__).resolve().parents[2] / "examples/python_training/audio.py"
    command = [sys.executable, page, data, "--epochs", "15", "--checkpoint"]
    whole = subprocess.run([*command, tmp_path / "whole"], check=True, timeout=120, capture_output=True, text=True).stdout.splitlines()
    right, total = int(whole[-1].split()[0]), int(whole[-1].split()[2])
    assert total == 120 and right > 30  # of ten classes
    with subprocess.Popen([*command, tmp_path / "killed"], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout.readline() == whole[0] + "\n"
        killed.kill()
    again = subprocess.run([*command, tmp_path / "killed"], check=True, timeout=120, capture_output=True, text=True).stdout.splitlines()
    assert 0 < len(again) < len(whole) and again == whole[-len(again):]
