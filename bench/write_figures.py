#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of bench/README.md and the plot bench/photos.svg from the figures that bench/run measured.

Usage: bench/write_figures.py [--all] [--readme FILE] [--plot FILE] FOLDER

FOLDER has NAME.session.json for each benchmark, which says where and how it was measured, and its figures in NAME.json and
NAME.*.json, as Google Benchmark writes them; a figure that several of them have counts as a further repetition. A row
shows the median of the repetitions. Sections of other benchmarks stay as they are; with --all they are removed. Nothing is
written where they would stay beside figures of another machine.
"""
import argparse
import datetime
import glob
import json
import os
import re
import statistics
import sys
from xml.sax.saxutils import escape

BENCH = os.path.dirname(os.path.abspath(__file__))

# For each benchmark: what its items are, and groups of rows: the row that the others of the group are compared with, if
# any, and a description of each row; {} stands for the benchmark's arguments. Rows and their baseline are compared at the
# same arguments where the baseline has those.
TABLES = {
    "photo_crops": ("photographs", [
        ("bare_threads<decoding::part_smaller>", {
            "bare_threads<decoding::part_smaller>": "the limit: feedline's decoding and resizing on {} bare threads",
            "feedline_pipeline": "feedline, `batch_into`, {} workers",
            "feedline_marked": "feedline, the same photographs with restart markers, {} workers",
            "bare_threads_marked": "{} bare threads, the same photographs with restart markers",
            "feedline_map_and_batch": "feedline, `map` and `batch`, which copies, {} workers",
            "tbb_parallel_pipeline": "TBB `parallel_pipeline` with feedline's decoding and resizing, {} threads",
            "opencv_pool<decoding::whole, cv::INTER_AREA>":
                "OpenCV's decoding and resizing, which averages (INTER_AREA) as feedline does, pool of {} threads",
            "opencv_pool<decoding::whole, cv::INTER_LINEAR>": "OpenCV, aliasing (INTER_LINEAR), pool of {} threads",
            "opencv_pool<decoding::part_smaller, cv::INTER_AREA>":
                "OpenCV, decoding at a reduced size, averaging, pool of {} threads",
            "opencv_pool<decoding::part_smaller, cv::INTER_LINEAR>":
                "OpenCV, decoding at a reduced size, aliasing, pool of {} threads",
            "pytorch_torchvision.io": "PyTorch's DataLoader with torchvision.io, {} workers",
            "pytorch_Pillow": "PyTorch's DataLoader with Pillow, {} workers",
            "pytorch_torchvision.io_marked": "PyTorch's DataLoader with torchvision.io, restart markers, {} workers",
            "pytorch_Pillow_marked": "PyTorch's DataLoader with Pillow, restart markers, {} workers",
            "bare_threads<decoding::part>": "{} bare threads that decode the part at full size",
            "bare_threads<decoding::whole>": "{} bare threads that decode the whole photograph first",
        }),
        ("bare_first_batch", {
            "bare_first_batch": "time to make one batch on {} bare threads",
            "feedline_first_batch": "time from starting a run to its first batch, {} workers",
        }),
    ]),
    "restart_markers": ("photographs", [
        ("random_crops", {
            f"random_crops{marked}/2/{i}": f"random crops of photographs {kind}{text}"
            for i, kind in enumerate(("as given", "encoded again with 4:2:0", "enlarged to 2,000 x 1,500"))
            for marked, text in (("", ""), ("_marked", ", with restart markers"))
        }),
        ("center_crops", {
            f"center_crops{marked}/2/{i}": f"center crops of photographs {kind}{text}"
            for i, kind in enumerate(("as given", "encoded again with 4:2:0", "enlarged to 2,000 x 1,500"))
            for marked, text in (("", ""), ("_marked", ", with restart markers"))
        }),
        ("whole_photographs", {
            f"whole_photographs{marked}/2/{i}": f"whole photographs {kind}{text}"
            for i, kind in enumerate(("as given", "encoded again with 4:2:0", "enlarged to 2,000 x 1,500"))
            for marked, text in (("", ""), ("_marked", ", with restart markers"))
        }),
        (None, {
            "read_header/0": "reading the header of a photograph",
            "find_segments/0": "reading the header and passing all restart markers",
            "read_header/2": "reading the header of an enlarged photograph",
            "find_segments/2": "reading the header and passing all restart markers of an enlarged photograph",
        }),
        ("bare_transcoding", {
            "bare_transcoding": "the limit: libjpeg's calls that add restart markers, {} bare threads",
            "add_markers_however_large": "`add_restart_markers` without a limit of growth, {} bare threads",
            "add_markers": "`add_restart_markers`, which writes files again that would grow by 2 %, {} bare threads",
        }),
    ]),
    "photos_libtorch": ("photographs", [
        ("bare_threads<decoding::part_smaller>", {
            "bare_threads<decoding::part_smaller>": "random parts: the limit, {} bare threads",
            "feedline_pipeline": "random parts: feedline, {} workers",
            "libtorch_data_loader": "random parts: libtorch's DataLoader with feedline's decoding and resizing, {} workers",
        }),
        ("whole_feedline_pipeline", {
            "whole_feedline_pipeline": "whole photographs: feedline, {} workers",
            "whole_libtorch_data_loader": "whole photographs: libtorch's DataLoader, {} workers",
        }),
    ]),
    "photos": ("photographs", [("bare_threads", {
        "bare_threads": "the limit: two bare threads that only decode",
        "feedline_pipeline": "feedline, two workers",
        "tbb_parallel_pipeline": "TBB `parallel_pipeline`, two threads",
        "hand_written_pool": "a pool of two threads with a mutex queue, written by hand",
        "pytorch_torchvision.io": "PyTorch's DataLoader with torchvision.io, {} workers",
        "pytorch_Pillow": "PyTorch's DataLoader with Pillow, {} workers",
    })]),
    "cold_shards": ("photographs", [
        ("in_memory", {
            "in_memory": "in the shards' order, from the page cache",
            "cold": "in the shards' order, not in the page cache",
            "cold_unannounced": "in the shards' order, not in the page cache, without reading ahead",
        }),
        ("bare_in_memory_shuffled", {
            "bare_in_memory_shuffled": "two bare threads that know the places, shuffled, from the page cache",
            "in_memory_shuffled": "shuffled over all shards, from the page cache",
        }),
        ("bare_cold_shuffled", {
            "bare_cold_shuffled": "two bare threads that know the places, shuffled, not in the page cache",
            "cold_shuffled": "shuffled over all shards, not in the page cache",
            "cold_shuffled_unannounced": "shuffled over all shards, not in the page cache, without reading ahead",
        }),
    ]),
    "remote_shards": ("photographs", [
        ("photos_from_disk", {
            "photos_from_disk": "from the disk",
            "photos_from_server": "from the server, parts requested ahead",
            "photos_from_server_with_tls": "the same with TLS and HTTP/2",
            "photos_without_read_ahead": "from the server, one request of 256 KiB at a time",
            "photos_from_cache": "a later epoch, from the cache on disk",
        }),
        ("bytes_with_curl", {
            "bytes_with_curl": "only the bytes: `curl --parallel`, no delay",
            "bytes_from_server": "only the samples: `tar_samples`, no delay",
        }),
        (None, {"memory_of_a_stream": "{} GB of samples, epoch after epoch"}),
        (None, {"single_photos_in_random_order": "single photographs in random order, {} in flight"}),
    ]),
    "cache": ("photographs", [("decoded_each_time", {
        "decoded_each_time": "decoded in each epoch",
        "first_epoch_to_memory": "the first epoch, which fills a cache in memory",
        "from_memory": "a later epoch, from a cache in memory",
        "from_directory": "a later epoch, from a cache in a directory (in the page cache)",
    })]),
    "jpeg_decode": ("images", [
        ("bare_into_kept_memory", {
            "bare_into_kept_memory": "libjpeg, into the same memory",
            "feedline_into_kept_memory": "feedline, into the same memory",
        }),
        ("bare_into_new_memory", {
            "bare_into_new_memory": "libjpeg, into new memory",
            "feedline_into_new_memory": "feedline, into new memory",
            "feedline_new_decoder": "feedline, into new memory with a new decoder for each image",
            "feedline_into_a_batch": "feedline, into new memory that lives until {} images are decoded",
            "feedline_gray": "feedline, as gray",
        }),
        (None, {"feedline_header": "feedline, only the header"}),
    ]),
    "image_formats": ("images", [
        ("png_whole_bare", {
            "png_whole_bare": "PNG: libpng, the whole image",
            "png_whole": "PNG: feedline, the whole image",
        }),
        ("png_crop_bare", {
            "png_crop_bare": "PNG: libpng down to the crop's last row, then `resize`",
            "png_crop": "PNG: feedline, `decode_crop`",
        }),
        ("webp_whole_bare<false>", {
            "webp_whole_bare<false>": "lossy WebP: libwebp, the whole image",
            "webp_whole<false>": "lossy WebP: feedline, the whole image",
        }),
        ("webp_crop_bare<false>", {
            "webp_crop_bare<false>": "lossy WebP: libwebp, the crop, then `resize`",
            "webp_crop<false>": "lossy WebP: feedline, `decode_crop`",
        }),
        ("webp_whole_bare<true>", {
            "webp_whole_bare<true>": "lossless WebP: libwebp, the whole image",
            "webp_whole<true>": "lossless WebP: feedline, the whole image",
        }),
        ("webp_crop_bare<true>", {
            "webp_crop_bare<true>": "lossless WebP: libwebp, the crop, then `resize`",
            "webp_crop<true>": "lossless WebP: feedline, `decode_crop`",
        }),
        ("png_threads_bare", {
            "png_threads_bare": "PNG: libpng and `resize` on two bare threads",
            "png_pipeline": "PNG: a pipeline with two workers",
        }),
        ("webp_threads_bare<false>", {
            "webp_threads_bare<false>": "lossy WebP: libwebp and `resize` on two bare threads",
            "webp_pipeline<false>": "lossy WebP: a pipeline with two workers",
        }),
    ]),
    "audio_clips": ("clips", [
        ("bare_threads", {
            "bare_threads": "the limit: {} bare threads, WAV of {} Hz",
            "feedline_pipeline": "feedline, {} workers, WAV of {} Hz",
            "pytorch_torchaudio": "PyTorch's DataLoader with torchaudio, {} workers, WAV of {} Hz",
            "pytorch_wave": "PyTorch's DataLoader with Python's `wave` and torchaudio's transforms, {} workers, WAV of {} Hz",
        }),
        (None, {
            "end_loader_at_work": "ending a loader of 8 workers at work",
            "end_loader_with_full_queues": "ending a loader of 8 workers with full queues",
        }),
    ]),
    "audio_features": ("clips", [
        ("transforms_alone/1", {
            "transforms_alone/0": "the limit: Fourier transforms alone, planned by FFTW_ESTIMATE",
            "transforms_alone/1": "the limit: Fourier transforms alone, planned by FFTW_MEASURE",
            "mel": "mel spectrogram",
            "log_mel": "mel spectrogram with logarithms",
            "filter_bank": "Kaldi's filter bank",
        }),
        (None, {
            "decode_wav": "decoding WAV of {} Hz",
            "resample": "resampling from {} Hz to 32,000 Hz",
            "wav_to_log_mel": "WAV of {} Hz decoded, resampled, and its mel spectrogram with logarithms",
        }),
    ]),
    "chess_positions": ("positions", [("bare_loop", {
        "bare_loop": "the limit: two bare threads, not shuffled, without checks",
        "bare_loop_that_checks_and_packs": "two bare threads, not shuffled, with the loader's checks and packed positions",
        "feedline_loader": "feedline, two workers, shuffle buffer of {} positions",
    })]),
    "arrow_scan": ("rows", [
        (None, {
            "touched/1024/0": "rows of 1 KiB, file mapped once",
            "touched/1024/1": "rows of 1 KiB, file mapped for each pass",
            "touched/16384/0": "rows of 16 KiB, file mapped once",
            "touched/16384/1": "rows of 16 KiB, file mapped for each pass",
            "touched/327680/0": "rows of 320 KiB, file mapped once",
            "touched/327680/1": "rows of 320 KiB, file mapped for each pass",
            "in_a_run": "rows of {} bytes in a run with {} workers",
            "views": "rows of {} bytes whose bytes nobody reads",
            "column_of_views": "texts of 10 or 500 bytes as views",
            "column_of_lists": "fixed-size lists of 768 numbers",
            "column_of_indices": "numbers in a dictionary",
        }),
    ]),
    "tiny_items": ("numbers", [
        ("tbb_hand_chunked", {
            "feedline_two_workers": "feedline, a map on two workers",
            "tbb_item_by_item": "TBB `parallel_pipeline`, item by item",
            "tbb_hand_chunked": "TBB `parallel_pipeline` with chunks made by hand",
        }),
        ("hand_written_serial_chain", {
            "hand_written_serial_chain": "a loop written by hand",
            "feedline_serial_chain": "feedline, a serial chain of stages",
        }),
        ("copied_records", {
            "copied_records": "records of 16 bytes, copied into batches by hand",
            "feedline_records": "records of 16 bytes through `records`, `map` and `batch`",
        }),
    ]),
    "watched_photos": ("photographs", [("alone", {
        "alone": "the limit: a run that nothing watches",
        "with_recorder": "with a recorder of 10 intervals per second",
        "with_trace": "with a trace",
        "with_watchdog": "with a watchdog",
    })]),
    "ragged_batch": ("images", [
        (f"hand_written_{kind}", {
            f"hand_written_{kind}": f"a loop written by hand, boxes {text}",
            f"feedline_{kind}": f"feedline, boxes {text}",
        })
        for kind, text in (("ragged", "as values and offsets"), ("padded", "padded"))
    ]),
    "queue_throughput": ("items", [
        ("each<boost_spsc, 8>", {
            "each<feedline_spsc, 8>": "`spsc_queue`, 8 bytes",
            "each<feedline_spsc_try, 8>": "`spsc_queue`, `try_push` and `try_pop` in a loop, 8 bytes",
            "each<boost_spsc, 8>": "Boost's spsc_queue, 8 bytes",
            "each<reader_writer_queue, 8>": "ReaderWriterQueue, 8 bytes",
        }),
        ("each<boost_spsc, 64>", {
            "each<feedline_spsc, 64>": "`spsc_queue`, 64 bytes",
            "each<feedline_spsc_try, 64>": "`spsc_queue`, `try_push` and `try_pop` in a loop, 64 bytes",
            "each<boost_spsc, 64>": "Boost's spsc_queue, 64 bytes",
            "each<reader_writer_queue, 64>": "ReaderWriterQueue, 64 bytes",
        }),
        ("bulk<boost_spsc, 8, 64>", {
            "bulk<feedline_spsc, 8, 64>": "`spsc_queue`, 64 items of 8 bytes at a time",
            "bulk<boost_spsc, 8, 64>": "Boost's spsc_queue, 64 items of 8 bytes at a time",
        }),
        ("bulk<boost_spsc, 64, 64>", {
            "bulk<feedline_spsc, 64, 64>": "`spsc_queue`, 64 items of 64 bytes at a time",
            "bulk<boost_spsc, 64, 64>": "Boost's spsc_queue, 64 items of 64 bytes at a time",
        }),
        ("each<mutex_and_condition_variable, 8>", {
            "each<mutex_and_condition_variable, 8>": "mutex and condition variables, 8 bytes, {} threads on either side",
            "each<feedline_mpmc, 8>": "`mpmc_queue`, 8 bytes, {} threads on either side",
            "each<moodycamel_blocking, 8>":
                "moodycamel's BlockingConcurrentQueue (unbounded), 8 bytes, {} threads on either side",
            "each<tbb_bounded, 8>": "TBB's bounded queue, 8 bytes, {} threads on either side",
        }),
        ("bulk<mutex_and_condition_variable, 8, 32>", {
            "bulk<mutex_and_condition_variable, 8, 32>":
                "mutex and condition variables, 32 items of 8 bytes at a time, {} threads on either side",
            "bulk<feedline_mpmc, 8, 32>": "`mpmc_queue`, 32 items of 8 bytes at a time, {} threads on either side",
            "bulk<moodycamel_blocking, 8, 32>":
                "moodycamel's BlockingConcurrentQueue (unbounded), 32 items of 8 bytes at a time, {} threads on either side",
        }),
    ]),
    "queue_handoff": ("exchanges", [("round_trip<bare_atomic_wait>", {
        "round_trip<bare_atomic_wait>": "the limit: `std::atomic::wait`, after a pause of {} µs",
        "round_trip<bare_futex>": "a bare futex, after a pause of {} µs",
        "round_trip<feedline_spsc>": "`spsc_queue`, after a pause of {} µs",
        "round_trip<feedline_mpmc>": "`mpmc_queue`, after a pause of {} µs",
        "round_trip<feedline_reorder>": "`reorder_queue`, after a pause of {} µs",
        "round_trip<moodycamel_blocking>": "moodycamel's BlockingConcurrentQueue, after a pause of {} µs",
        "round_trip<tbb_bounded>": "TBB's bounded queue, after a pause of {} µs",
        "round_trip<mutex_and_condition_variable>": "mutex and condition variables, after a pause of {} µs",
    })]),
    "waiting_workers": ("items", [
        ("bare_threads", {
            "bare_threads": "the limit: {} bare threads, {} ms of waiting for each item",
            "feedline_workers": "feedline, {} workers, {} ms of waiting for each item",
        }),
        ("bare_photos", {
            "bare_photos": "the limit: {} bare threads, {} ms of waiting for each photograph",
            "feedline_photos": "feedline, {} workers, {} ms of waiting for each photograph",
        }),
    ]),
    "scaling": ("items", [
        (None, {
            "cache_line": "a write to a cache line that another thread wrote last",
            "lock": "a lock and an unlock, {} threads in competition",
            "block": "a tensor's memory taken and returned, {} threads in competition",
            "packet_to_workers": "a packet through the queue to workers, by one thread",
            "packet_from_workers": "a packet through the queue from workers, which restores the order, by one thread",
            "used_packet": "a used packet returned and taken, where {} threads returned some before",
            "wake_call": "waking a thread: the call",
            "until_awake": "waking a thread: until it runs",
        }),
        (None, {
            "predicted_from_source": "prediction for 256 workers: a source's thread, {} µs of work for each item",
            "predicted_by_place": "prediction for 256 workers: they take the samples themselves, {} µs of work",
        }),
        *((f"{kind}_predicted", {
            f"{kind}_predicted": f"{{}} workers, {text}: prediction for this machine",
            f"{kind}_measured": f"{{}} workers, {text}: a real run",
        }) for kind, text in (
            ("computing", "{} µs of computing for each item of a source's thread"),
            ("places", "{} µs of computing for each sample that they take themselves"),
            ("waiting", "{} µs of sleep for each item of a source's thread"),
        )),
    ]),
    "split": ("numbers", [("if_in_map", {
        "if_in_map": "feedline, an `if` in a map, {} rounds of work for each number",
        "split_into_maps": "feedline, `split` into two maps, {} rounds",
        "bare_threads": "the limit: two bare threads, {} rounds",
    })]),
    "mixed_workers": ("numbers", [("workers_downstream", {
        "workers_downstream": "feedline, a map on two workers downstream of mix, {} rounds of work for every second number",
        "workers_in_part": "feedline, a map on two workers in a part of mix, {} rounds",
        "bare_threads": "the limit: two bare threads, {} rounds",
    })]),
    "stop_latency": ("stops", [("bare_threads", {
        "bare_threads": "the limit: waking and joining 66 bare threads",
        "starved_workers": "feedline, 64 workers that wait for input",
        "full_queues": "feedline, 64 workers that wait for room in full queues",
    })]),
    "global_shuffle": ("samples", [
        ("thread_and_queue", {
            "thread_and_queue": "a thread gives samples to two workers through a queue; rounds of work for each: {}",
            "workers_take_places": "two workers take the samples themselves; rounds of work for each: {}",
        }),
        ("listed_places", {
            "listed_places": "a place of a shuffled list of {} places",
            "permuted_places": "a place of a keyed permutation of {} places",
        }),
        ("read_everything", {
            "read_everything": "reading all bytes of the shards",
            "scan_headers": "finding the samples by the headers of the shards",
            "read_kept_index": "finding the samples by an index that was kept",
        }),
    ]),
    "stream_shuffler": ("numbers", [("shuffled_list", {
        "shuffled_list": "`std::shuffle` of a list of {} numbers",
        "shuffler_passes": "passes over a window of {} numbers",
        "shuffler_moving": "a moving window of {} numbers",
    })]),
    "async_map": ("items", [
        ("asio_alone", {
            "asio_alone": "the limit: Asio alone, {} items, {} in flight that wait {} us each",
            "async_map": "`async_map`, {} items, {} in flight that wait {} us each",
        }),
        (None, {"stop": "ending a loader with {} items in flight that would take a minute"}),
    ]),
    "reservoir": ("frames", [("by_hand", {
        "by_hand": "the limit: copies to and from a block of {} frames",
        "through_shuffle": "`shuffle` of {} frames",
    })]),
    "token_windows": ("tokens", [("by_hand", {
        "by_hand": "a thread that cuts the windows and sends batches through a queue, written by hand",
        "through_windows": "`windows` and `batch`",
    }), ("tokens_by_memcpy", {
        "tokens_by_memcpy": "windows of a file of 16-bit tokens, one after another: copies with memcpy from the mapped file",
        "blocks_of_tokens": "… `records` of 1,000 tokens, `windows` and `batch`",
        "tokens_one_by_one": "… `records` of single tokens, `windows` and `batch`",
    }), ("random_by_memcpy", {
        "random_by_memcpy": "random windows of the file, inputs and targets: copies with memcpy from the mapped file",
        "random_windows": "… `global_shuffle` and `batch_into`",
        "random_windows_on_worker": "… `global_shuffle` and `batch_into`, 1 worker",
    })]),
    "text_lines": ("lines", [
        ("shuffled_pread", {
            "shuffled_pread": "in random order: `pread` at offsets that are all known, written by hand",
            "shuffled_lines": "in random order: `indexed_lines` and `global_shuffle`",
        }),
        ("count_lines", {
            "count_lines": "the limit: counting line feeds",
            "find_lines": "finding the lines of a file",
        }),
    ]),
    "zstd_lines": ("items", [("zstd_by_hand", {
        "zstd_by_hand": "libzstd in one thread, written by hand",
        "zstd_lines": "`lines` with `unzstd_stream`",
    }), ("zstd_shard_by_hand", {
        "zstd_shard_by_hand": "a TAR shard: libzstd in one thread, written by hand",
        "zstd_shard": "a TAR shard: `tar_samples` with `unzstd_stream`",
    })]),
    "checkpoint": ("samples", [
        (None, {
            "take_by_place": "taking a checkpoint of a shuffled source",
            "take_with_buffer": "taking a checkpoint with a shuffle buffer of {} samples",
            "to_bytes_with_buffer": "turning a checkpoint with a shuffle buffer of {} samples into bytes",
        }),
        ("read_up_to_place", {
            "read_up_to_place": "starting a run and reading {} samples",
            "resume_by_place": "resuming at sample {}",
        }),
        ("fill_buffer", {
            "fill_buffer": "starting a run and filling a shuffle buffer of {} samples",
            "resume_with_buffer": "resuming with a shuffle buffer of {} samples",
        }),
        ("sum_of_indices", {
            "sum_of_indices": "the limit: adding up the indices of samples",
            "digest_of_samples": "the digest of samples",
        }),
    ]),
    "compile_time": ("files", [("standard_headers, header-only", {
        "standard_headers, header-only": "the standard headers that such a library needs",
        "umbrella, header-only": "`feedline/feedline.hpp`, header-only",
        "umbrella, header-only-O0": "`feedline/feedline.hpp`, header-only, at -O0",
        "umbrella, compiled": "`feedline/feedline.hpp`, with feedline compiled",
        "umbrella, compiled-O0": "`feedline/feedline.hpp`, with feedline compiled, at -O0",
        "first_pipeline, header-only": "the first pipeline of the front page, header-only",
        "first_pipeline, precompiled": "the first pipeline of the front page, header-only, with `feedline/feedline.hpp` precompiled",
        "first_pipeline, compiled": "the first pipeline of the front page, with feedline compiled",
        "ten_stages, header-only": "a pipeline of ten stages, header-only",
        "ten_stages, precompiled": "a pipeline of ten stages, header-only, with `feedline/feedline.hpp` precompiled",
        "ten_stages, compiled": "a pipeline of ten stages, with feedline compiled",
        "image_training, header-only": "examples/image_training, header-only",
        "image_training, precompiled": "examples/image_training, header-only, with `feedline/feedline.hpp` precompiled",
        "image_training, compiled": "examples/image_training, with feedline compiled",
    })]),
}
# How further counters are shown; None: not at all.
COUNTERS = {
    "p50_ms": None,
    "p99_ms": "99th percentile {:.2f} ms",
    "by_hand_GB/s": "a loop over the bytes: {:.1f} GB/s",
    "by_hand_M/s": "a loop over the buffers: {:.1f} M rows/s",
    "source_GB/s": None,
    "time_ratio": "{:.2f} times the loop's processor time",
    "GB/s_not_looked_at": None,
    "bytes": "{:,.0f} bytes",
    "page_faults": "{:,.1f} page faults each",
    "memory_ratio": "memory: {:.3f} times the bytes of the data",
    "bits_per_number": "{:.1f} bits of memory per number",
    "of_ideal": "{:.0%} of ideal",
    "of_limit": "{:.0%} of the limit",
    "growth_mb": "memory grew by {:.0f} MB after the first gigabyte",
    "announced_MB": "{:.0f} MB of memory announced",
    "taken_MB": "{:.0f} MB of memory taken",
}
# Libraries that a row needs, and others that it uses, whose versions are shown too.
PEERS = {
    "boost_": "Boost", "reader_writer_queue": "ReaderWriterQueue", "moodycamel_": "ConcurrentQueue", "tbb_": "TBB",
    "opencv_": "OpenCV", "libtorch_": "libtorch", "pytorch_": "PyTorch",
}
PARTS_OF_PEERS = {"torchvision": "torchvision", "torchaudio": "torchaudio", "Pillow": "Pillow"}
# Of each system in the plot: its benchmark, its name, its color, and whether its line is dashed.
SYSTEMS = {
    "feedline_pipeline": ("feedline", "#d6404f", False),
    "feedline_marked": ("feedline, restart markers", "#d6404f", True),
    "tbb_parallel_pipeline": ("TBB", "#2b9a5b", False),
    "libtorch_data_loader": ("libtorch", "#d0811a", False),
    "opencv_pool<decoding::whole, cv::INTER_AREA>": ("OpenCV", "#3c82d6", False),
    "pytorch_torchvision.io": ("PyTorch, torchvision.io", "#9461cc", False),
    "pytorch_Pillow": ("PyTorch, Pillow", "#9461cc", True),
}
LIMIT = "bare_threads<decoding::part_smaller>"

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
NO_COUNTERS = {
    "name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index",
    "threads", "iterations", "real_time", "cpu_time", "time_unit", "items_per_second", "bytes_per_second",
    "aggregate_name", "aggregate_unit", "label",
}


class Row:
    """The figures of one benchmark with certain arguments: medians of all repetitions."""

    def __init__(self, run_name, repetitions):
        parts = run_name.split("/")
        self.timed_by = {p for p in parts if p in ("real_time", "manual_time", "process_time")}
        arguments = [p.split(":")[-1] for p in parts[1:] if p not in self.timed_by and not p.startswith("iterations:")]
        self.name = parts[0]
        self.key = "/".join([self.name, *arguments])
        self.arguments = [int(a) for a in arguments]
        self.repetitions = len(repetitions)
        median = lambda of: statistics.median(of(r) for r in repetitions)
        field = lambda f: median(lambda r: r[f]) if f in repetitions[0] else None
        self.rate, self.byte_rate = field("items_per_second"), field("bytes_per_second")
        timed = "real_time" if self.timed_by & {"real_time", "manual_time"} else "cpu_time"
        self.seconds = median(lambda r: r[timed] * SECONDS[r["time_unit"]])
        self.processor_seconds = None  # of an item, in all threads
        if "process_time" in self.timed_by and self.rate:
            self.processor_seconds = median(lambda r: r["cpu_time"] / r["real_time"] / r["items_per_second"])
        self.counters = {c: field(c) for c in repetitions[0] if c not in NO_COUNTERS}
        self.label = repetitions[0].get("label")

    def speed(self):
        return self.rate or self.byte_rate or 1 / self.seconds


class Benchmark:
    """All that was measured of one file of bench/."""

    def __init__(self, folder, name):
        self.name = name
        with open(os.path.join(folder, name + ".session.json"), encoding="utf-8") as file:
            self.session = json.load(file)
        repetitions = {}
        for path in sorted(glob.glob(os.path.join(folder, name + ".json")) + glob.glob(os.path.join(folder, name + ".*.json"))):
            if path.endswith(".session.json"):
                continue
            with open(path, encoding="utf-8") as file:
                measured = [b for b in json.load(file)["benchmarks"] if not b.get("error_occurred")]
            single = [b for b in measured if b.get("run_type") == "iteration"]
            for b in single or measured:
                repetitions.setdefault(b["run_name"], []).append(b)
        self.rows = {row.key: row for row in (Row(*r) for r in repetitions.items())}

    def groups(self):
        """[(baseline or None, [(description, row)])], those that are in no table at the end."""
        left, groups = dict(self.rows), []
        for baseline, descriptions in TABLES.get(self.name, ("items", []))[1]:
            found = []
            for key, description in descriptions.items():
                for row in sorted(left.values(), key=lambda r: r.arguments):
                    if key in (row.key, row.name):
                        found.append((describe(description, [] if key == row.key else row.arguments), row))
                        del left[row.key]
            groups.append((baseline, found))
        groups.append((None, [(f"`{key}`", row) for key, row in left.items()]))
        return groups

    def baseline_of(self, row, baseline):
        with_arguments = "/".join([baseline or "", *map(str, row.arguments)])
        return self.rows.get(with_arguments) or self.rows.get(baseline)

    def peers_left_out(self):
        known = [key for _, descriptions in TABLES.get(self.name, ("", []))[1] for key in descriptions]
        measured = {row.name for row in self.rows.values()}
        return [peer for word, peer in PEERS.items()
                if any(word in key for key in known) and not any(word in name for name in measured)]

    def versions(self):
        """The names of the libraries with which rows were measured, each with its version."""
        measured, versions = {row.name for row in self.rows.values()}, self.session.get("versions", {})
        return [f"{peer} {versions[peer]}" for word, peer in (PEERS | PARTS_OF_PEERS).items()
                if peer in versions and any(word in name for name in measured)]


def describe(description, arguments):
    return re.sub(r"\b1 ((?:bare )?(?:worker|thread))s\b", r"1 \1", description.format(*(f"{a:,}" for a in arguments)))


def number(value):
    """Rounded to three significant digits."""
    value = float(f"{value:.3g}")
    if value >= 1e6:
        return number(value / 1e6) + " M"
    digits = max(0, 3 - len(str(int(value)))) if value >= 1 else 3
    return f"{value:,.{digits}f}"


def seconds(value):
    value = float(f"{value:.3g}")
    unit = next((u for u in ("s", "ms", "us") if value >= SECONDS[u]), "ns")
    return f"{number(value / SECONDS[unit])} {unit.replace('us', 'µs')}"


def ratio(value):
    return number(value) if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def measured(row, items):
    if row.rate:
        return f"{number(row.rate)} {items}/s"
    return f"{number(row.byte_rate / 1e9)} GB/s" if row.byte_rate else seconds(row.seconds)


def counters(row):
    shown = (COUNTERS.get(name, name + " {:.3g}") for name in row.counters)
    return "; ".join([s.format(value) for s, value in zip(shown, row.counters.values()) if s] + [row.label] * bool(row.label))


def question(name):
    """The comment that the benchmark begins with, up to its usage."""
    path, mark = os.path.join(BENCH, name + ".cpp"), "//"
    if not os.path.exists(path):
        path, mark = os.path.join(BENCH, name, "run"), "#"
    lines = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#!") or "SPDX" in line:
                continue
            line = line.strip()
            if not line.startswith(mark) or line.startswith(mark + " Usage"):
                break
            lines.append(line[len(mark):].strip())
    return "\n".join(lines).strip()


def section(benchmark):
    items = TABLES.get(benchmark.name, ("items",))[0]
    header = ["measured", "rate or time", "processor time per item", "speed relative to the baseline", ""]
    table = []
    for baseline, rows in benchmark.groups():
        for description, row in rows:
            base = benchmark.baseline_of(row, baseline)
            relative = "baseline" if base is row else ratio(row.speed() / base.speed()) if base else ""
            each = seconds(row.processor_seconds) if row.processor_seconds else ""
            table.append([description, measured(row, items), each, relative, counters(row)])
    columns = [c for c in range(len(header)) if any(line[c] for line in table)]
    line = lambda cells: "| " + " | ".join(cells[c] for c in columns) + " |"
    rows = benchmark.rows.values()
    session = benchmark.session
    repetitions = sorted({row.repetitions for row in rows})
    many = "1 repetition" if repetitions == [1] else "–".join(map(str, sorted({repetitions[0], repetitions[-1]}))) + " repetitions"
    quick = "**Quick run: too short for figures that count.** " if session["quick"] else ""
    yield f"## {benchmark.name}\n\n{question(benchmark.name)}\n"
    yield line(header)
    yield "|" + "|".join(" --- " if c in (0, 4) else " ---: " for c in columns) + "|"
    yield from map(line, table)
    yield (f"\n{quick}{session['date']}, {many}; other programs used "
           f"{session['others_percent']} % of the processors.")
    if benchmark.versions():
        yield f"With {', '.join(benchmark.versions())}."
    if benchmark.peers_left_out():
        yield f"Not measured because not installed: {', '.join(benchmark.peers_left_out())}."
    yield ""


def between(text, name):
    """(what comes before the text between the markers of that name, that text, what comes after it)"""
    begin, end = f"<!-- {name}: written by bench/run -->\n", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    inside, found, after = rest.partition(end)
    if not found:
        sys.exit(f"The README lacks the markers of {name}: {begin.strip()} and {end}.")
    return before + begin, inside, end + after


def write_readme(path, benchmarks, replace_all):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    session = benchmarks[0].session
    machine = (f"Machine: {session['cores']} cores of {session['cpu']}, {session['system']}; compiled by "
               f"{session['compiler']}.\n")
    before, old_machine, rest = between(text, "machine")
    sections = {}
    if not replace_all:
        for old in re.split(r"^(?=## )", between(rest, "tables")[1], flags=re.MULTILINE):
            if old.startswith("## "):
                sections[old[3:].split("\n")[0]] = old
    kept = sections.keys() - {b.name for b in benchmarks}
    if kept and old_machine != machine:
        sys.exit(f"{path} stays as it is: it has figures of {', '.join(sorted(kept))} from another machine. "
                 "bench/run without names replaces all of them.")
    sections |= {b.name: "\n".join(section(b)) + "\n" for b in benchmarks}
    order = [*TABLES, *sorted(sections.keys() - TABLES.keys())]
    tables = "\n" + "".join(sections[name] for name in order if name in sections)
    before_tables, _, after = between(rest, "tables")
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + machine + before_tables + tables + after)


# The plot.

WIDTH, TOP, HEIGHT = 1000, 84, 236
BARS, BARS_WIDTH = 220, 220  # where bars begin, and the room for them
LINES, LINES_WIDTH = 560, 220  # where lines begin, and the room for them
STYLE = """
text { font-family: sans-serif; font-size: 13px; fill: #24292f }
.small { font-size: 12px; fill: #57606a }
.title { font-size: 16px; font-weight: bold }
.ours { font-weight: bold }
.page { fill: #ffffff; stroke: #d0d7de }
.grid { stroke: #d8dee4 }
.axis { stroke: #57606a }
.limit { stroke: #24292f; stroke-width: 2; stroke-dasharray: 5 4; fill: none }
"""
DARK_STYLE = """
text { fill: #e6edf3 }
.small { fill: #9ba5b0 }
.page { fill: #0d1117; stroke: #30363d }
.grid { stroke: #262c34 }
.axis { stroke: #9ba5b0 }
.limit { stroke: #e6edf3 }
"""


def text(x, y, content, anchor="start", style="", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}" {more}>{escape(content)}</text>'


def rule(x, y, path, style):
    return f'<path d="M{x:.1f},{y:.1f}{path}" class="{style}"/>'


def style_of(name):
    return "ours" if name.startswith("feedline_") else ""


def round_steps(most, count=5):
    """From 0 to at least `most`, in about `count` round steps."""
    step = next(s * 10**e for e in range(12) for s in (1, 2, 2.5, 5) if s * 10**e * count >= most and s * 10**e % 1 == 0)
    return [int(step * i) for i in range(int(-(-most // step)) + 1)]


def bars(rates):
    """One bar for each system with two workers, the fastest first; a line at the limit."""
    two = sorted(((by[2], name) for name, by in rates.items() if 2 in by and name != LIMIT), reverse=True)
    limit = rates.get(LIMIT, {}).get(2)
    steps = round_steps(max([rate for rate, _ in two] + [limit or 0]), 4)
    x = lambda rate: BARS + rate / steps[-1] * BARS_WIDTH
    row = HEIGHT / len(two)
    yield text(BARS, TOP - 24, "Two workers")
    for step in steps:
        yield rule(x(step), TOP, f"v{HEIGHT}", "axis" if step == 0 else "grid")
        yield text(x(step), TOP + HEIGHT + 18, f"{step:,}", "middle", "small")
    yield text(BARS + BARS_WIDTH / 2, TOP + HEIGHT + 38, "photographs per second", "middle", "small")
    for i, (rate, name) in enumerate(two):
        label, color, _ = SYSTEMS[name]
        thick = min(22, row - 8)
        middle = TOP + (i + 0.5) * row
        yield text(BARS - 8, middle + 4.5, label, "end", style_of(name))
        yield f'<rect x="{BARS}" y="{middle - thick / 2:.1f}" width="{x(rate) - BARS:.1f}" height="{thick:.1f}" fill="{color}"/>'
        # Where the line of the limit can't cross it.
        inside = x(rate) - BARS > 60
        yield text(BARS + 8 if inside else x(rate) + 6, middle + 4.5, f"{rate:,.0f}", style=style_of(name),
                   more='style="fill: #ffffff"' if inside else "")
    if limit:
        yield rule(x(limit), TOP - 4, f"v{HEIGHT + 4}", "limit")
        yield text(x(limit) + 4, TOP - 8, f"limit (bare threads): {limit:,.0f}", "middle", "small")


def spread(places, gap):
    """The heights of labels, moved apart so that none covers another: {name: y}."""
    placed, at = {}, float("-inf")
    for y, name in sorted(places):
        at = placed[name] = max(y, at + gap)
    # Those that were pushed below the last one's own height go up together by half of it.
    up = max(0, at - max(y for y, _ in places)) / 2
    return {name: y - up for name, y in placed.items()}


def lines(rates, cores):
    """Against the number of workers."""
    several = {name: sorted(by.items()) for name, by in rates.items() if len(by) > 1}
    if not several:
        return
    counts = sorted({workers for by in several.values() for workers, _ in by})
    steps = round_steps(max(rate for by in several.values() for _, rate in by))
    x = lambda workers: LINES + (counts.index(workers) + 0.5) * LINES_WIDTH / len(counts)
    y = lambda rate: TOP + HEIGHT * (1 - rate / steps[-1])
    yield text(LINES, TOP - 24, f"{counts[0]} to {counts[-1]} workers on {cores} cores")
    for step in steps:
        yield rule(LINES, y(step), f"h{LINES_WIDTH}", "axis" if step == 0 else "grid")
        yield text(LINES - 6, y(step) + 4, f"{step:,}", "end", "small")
    middle = TOP + HEIGHT / 2
    yield text(LINES - 48, middle, "photographs per second", "middle", "small",
               f'transform="rotate(-90 {LINES - 48} {middle:.0f})"')
    for workers in counts:
        yield text(x(workers), TOP + HEIGHT + 18, str(workers), "middle", "small")
    yield text(LINES + LINES_WIDTH / 2, TOP + HEIGHT + 38, "workers", "middle", "small")
    labels = spread([(y(by[-1][1]), name) for name, by in several.items()], 17)
    # The limit on top of all, feedline on top of the others.
    for name, by in sorted(several.items(), key=lambda s: (s[0] == LIMIT, s[0] == "feedline_pipeline")):
        label, color, dashed = SYSTEMS.get(name, ("limit (bare threads)", None, True))
        points = " ".join(f"{x(workers):.1f},{y(rate):.1f}" for workers, rate in by)
        end, label_at = x(by[-1][0]), LINES + LINES_WIDTH + 8
        if name == LIMIT:
            yield f'<polyline points="{points}" class="limit"/>'
        else:
            dashes = 'stroke-dasharray="2 4"' if dashed else ""
            yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5" {dashes}/>'
            for workers, rate in by:
                yield f'<circle cx="{x(workers):.1f}" cy="{y(rate):.1f}" r="3.5" fill="{color}"/>'
        yield rule(end + 6, y(by[-1][1]), f"L{label_at - 3},{labels[name]:.1f}", "grid")
        yield text(label_at, labels[name] + 4, label, style=style_of(name))


def write_plot(path, benchmarks):
    """From the random parts of photographs, and libtorch's from its own benchmark."""
    measured = {b.name: b for b in benchmarks}
    if "photo_crops" not in measured:
        return
    rates = {}
    for name in ("photo_crops", "photos_libtorch"):
        for row in measured[name].rows.values() if name in measured else ():
            if row.name in (*SYSTEMS, LIMIT):
                rates.setdefault(row.name, {}).setdefault(row.arguments[0], row.rate)
    session = measured["photo_crops"].session
    quick = " (quick run)" if session["quick"] else ""
    bottom = TOP + HEIGHT + 78
    title = f"Random crops of photographs, from TAR shards to batches{quick}"
    drawn = [
        text(24, 34, title, style="title"), *bars(rates), *lines(rates, session["cores"]),
        text(24, bottom - 14, "The limit is feedline's decoding and resizing on bare threads, without batches and order. TBB and "
             "libtorch call the same functions.", style="small"),
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom}" '
                   f'viewBox="0 0 {WIDTH} {bottom}" role="img">\n<title>{escape(title)}</title>\n'
                   f'<style>{STYLE}@media (prefers-color-scheme: dark) {{{DARK_STYLE}}}\n</style>\n'
                   f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{bottom - 1}" rx="8" class="page"/>\n')
        file.write("\n".join(drawn))
        file.write("\n</svg>\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("folder")
    arguments.add_argument("--all", action="store_true", help="remove the sections of what wasn't measured")
    arguments.add_argument("--readme", default=os.path.join(BENCH, "README.md"))
    arguments.add_argument("--plot", default=os.path.join(BENCH, "photos.svg"))
    options = arguments.parse_args()
    sessions = sorted(glob.glob(os.path.join(options.folder, "*.session.json")))
    benchmarks = [Benchmark(options.folder, os.path.basename(s).split(".")[0]) for s in sessions]
    benchmarks = [b for b in benchmarks if b.rows]
    if not benchmarks:
        sys.exit(f"There are no figures in {options.folder}.")
    write_readme(options.readme, benchmarks, options.all)
    write_plot(options.plot, benchmarks)


if __name__ == "__main__":
    main()
