#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what photographs a second the loaders give, from figures in Google Benchmark's JSON.

Usage: bench/plot_photos.py OUTPUT.svg FIGURES.json...

Figures come from `bench_photo_crops --benchmark_repetitions=7 --benchmark_out=FIGURES.json`, from
`bench_photos_libtorch` likewise and from `pytorch_photos.py --crops --batch 64 --workers 1,2,4,8 --json FIGURES.json`.
Takes medians where there are any, and of what is in several files the first. On the left: each loader with two workers;
on the right: the number of workers.
"""
import json
import sys
from xml.sax.saxutils import escape

# Of each benchmark: what it is called, and its color.
SERIES = {
    "feedline_pipeline": ("feedline", "#c0392b"),
    "feedline_map_and_batch": ("feedline, map and batch", "#e0938a"),
    "bare_threads<decoding::part_smaller>": ("bare threads", "#4d575e"),
    "bare_threads<decoding::whole>": ("bare threads, all decoded", "#a0a8ad"),
    "tbb_parallel_pipeline": ("TBB", "#2e7d4f"),
    "libtorch_data_loader": ("libtorch", "#c77a14"),
    "opencv_pool<decoding::whole, cv::INTER_AREA>": ("OpenCV", "#2f6fb0"),
    "opencv_pool<decoding::whole, cv::INTER_LINEAR>": ("OpenCV, aliasing", "#8fb4d9"),
    "opencv_pool<decoding::part_smaller, cv::INTER_AREA>": ("OpenCV, reduced", "#8fb4d9"),
    "opencv_pool<decoding::part_smaller, cv::INTER_LINEAR>": ("OpenCV, reduced, aliasing", "#8fb4d9"),
    "pytorch_torchvision.io": ("PyTorch, torchvision.io", "#7d4fa3"),
    "pytorch_Pillow": ("PyTorch, Pillow", "#a569bd"),
}
# What isn't plain, where it is drawn.
NOTES = {
    "bare_threads<decoding::part_smaller>": "Bare threads only decode, crop and resize, with feedline's function.",
    "tbb_parallel_pipeline": "TBB's parallel_pipeline runs the same function.",
    "libtorch_data_loader": "libtorch's DataLoader (C++) runs the same function.",
    "opencv_pool<decoding::part_smaller, cv::INTER_AREA>":
        "OpenCV: a pool of threads; reduced: decoded at 1/2 to 1/8 where that is enough; aliasing: INTER_LINEAR.",
}
WIDTH, TOP, ROW = 1040, 52, 28
BARS, BAR_LENGTH = 210, 250  # where bars begin, and the longest one
LINES, LINES_WIDTH = 600, 270  # where lines begin


def read_figures(paths):
    """({name: {workers: items a second}}, number of processor cores or None)"""
    rates, cores = {}, None
    for path in paths:
        with open(path, encoding="utf-8") as file:
            figures = json.load(file)
        cores = cores or figures.get("context", {}).get("num_cpus")
        benchmarks = figures["benchmarks"]
        has_medians = any(b.get("aggregate_name") == "median" for b in benchmarks)
        for b in benchmarks:
            if "items_per_second" not in b or (has_medians and b.get("aggregate_name") != "median"):
                continue
            name, workers = b["run_name"].split("/")[:2]
            if name not in SERIES:
                continue
            rate = b["items_per_second"]
            first = rates.setdefault(name, {}).setdefault(int(workers), rate)
            if abs(rate / first - 1) > 0.05:
                print(f"The runs can't be compared: {name} with {workers} workers gave {first:,.0f} a second in one, "
                      f"{rate:,.0f} in {path}", file=sys.stderr)
    return rates, cores


def text(x, y, content, anchor="start", size=13, color="#222", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{color}">{escape(content)}</text>')


def weight_of(name):
    return "bold" if name == "feedline_pipeline" else "normal"


def bars(two):
    """[(rate, name)], the fastest first."""
    for i, (rate, name) in enumerate(two):
        label, color = SERIES[name]
        y = TOP + i * ROW
        length = rate / two[0][0] * BAR_LENGTH
        yield text(BARS - 8, y + 15, label, "end", weight=weight_of(name))
        yield f'<rect x="{BARS}" y="{y}" width="{length:.1f}" height="20" fill="{color}"/>'
        yield text(BARS + length + 6, y + 15, f"{rate:,.0f}", weight=weight_of(name))


def round_steps(most):
    """From 0 to at least `most`, in three to six round steps."""
    step = 1
    while most / step > 6:
        step *= 10
    step = next(s for s in (step / 5, step / 2, step) if most / s <= 6)
    return [step * i for i in range(int(-(-most // step)) + 1)]


def spread(places, gap):
    """The heights of labels, moved apart so that none covers another: {name: y}."""
    placed, at = {}, float("-inf")
    for y, name in sorted(places):
        at = placed[name] = max(y, at + gap)
    # Those that were pushed below the last one's own height go up together by half of it.
    up = max(0, at - max(y for y, _ in places)) / 2
    return {name: y - up for name, y in placed.items()}


def lines(rates, height):
    """Against the number of workers."""
    several = {name: sorted(by.items()) for name, by in rates.items() if len(by) > 1}
    if not several:
        return
    counts = sorted({workers for by in several.values() for workers, _ in by})
    steps = round_steps(max(rate for by in several.values() for _, rate in by))
    x = lambda workers: LINES + (counts.index(workers) + 0.5) * LINES_WIDTH / len(counts)
    y = lambda rate: TOP + height * (1 - rate / steps[-1])
    for step in steps:
        yield f'<path d="M{LINES},{y(step):.1f}h{LINES_WIDTH}" stroke="{"#222" if step == 0 else "#ddd"}"/>'
        yield text(LINES - 6, y(step) + 4, f"{step:,.0f}", "end", 11)
    for workers in counts:
        yield text(x(workers), TOP + height + 17, str(workers), "middle")
    labels = spread([(y(by[-1][1]), name) for name, by in several.items()], 16)
    for name, by in sorted(several.items(), key=lambda s: s[0] == "feedline_pipeline"):  # that one on top
        label, color = SERIES[name]
        points = " ".join(f"{x(workers):.1f},{y(rate):.1f}" for workers, rate in by)
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5" stroke-linejoin="round"/>'
        for workers, rate in by:
            yield f'<circle cx="{x(workers):.1f}" cy="{y(rate):.1f}" r="3" fill="{color}"/>'
        end = x(by[-1][0]) + 5
        yield (f'<path d="M{end:.1f},{y(by[-1][1]):.1f}L{LINES + LINES_WIDTH + 2},{labels[name]:.1f}" '
               f'stroke="{color}" stroke-width="1" stroke-opacity="0.5"/>')
        yield text(LINES + LINES_WIDTH + 6, labels[name] + 4, label, color=color, weight=weight_of(name))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    rates, cores = read_figures(sys.argv[2:])
    two = sorted(((by[2], name) for name, by in rates.items() if 2 in by), reverse=True)
    if not two:
        sys.exit("There are no figures with two workers in " + ", ".join(sys.argv[2:]))
    height = max(len(two) * ROW - 8, 160)
    where = f", on {cores} processor cores" if cores else ""
    drawn = [
        text(BARS, 26, "photographs a second with 2 workers", size=14),
        *bars(two),
        text(LINES, 26, "against the number of workers" + where, size=14),
        *lines(rates, height),
    ]
    notes = [note for name, note in NOTES.items() if name in rates]
    for i, note in enumerate(notes):
        drawn.append(text(24, TOP + height + 44 + i * 15, note, size=11, color="#555"))
    bottom = TOP + height + 44 + len(notes) * 15
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        # A background of its own: it is shown on light pages and on dark ones.
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom}" '
                   f'viewBox="0 0 {WIDTH} {bottom}" font-family="sans-serif">\n'
                   '<rect width="100%" height="100%" rx="8" fill="white"/>\n')
        file.write("\n".join(drawn))
        file.write("\n</svg>\n")


if __name__ == "__main__":
    main()
