#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws what photographs a second the loaders give, from figures in Google Benchmark's JSON.

Usage: bench/plot_photos.py OUTPUT.svg FIGURES.json...

Figures come from `bench_photo_crops --benchmark_repetitions=7 --benchmark_out=FIGURES.json` and from
`pytorch_photos.py --crops --json FIGURES.json`. Takes medians where there are any. On the left: each loader with two
workers; on the right: with more of them.
"""
import json
import sys
from xml.sax.saxutils import escape

LABELS = {
    "bare_threads<decoding::part_smaller>": "bare threads",
    "bare_threads<decoding::whole>": "bare threads, whole photograph",
    "feedline_pipeline": "feedline",
    "feedline_map_and_batch": "feedline, map and batch",
    "tbb_parallel_pipeline": "TBB parallel_pipeline",
    "pytorch_torchvision.io": "PyTorch, torchvision.io",
    "pytorch_Pillow": "PyTorch, Pillow",
}
COLORS = {"feedline_pipeline": "#c0392b", "bare_threads<decoding::part_smaller>": "#7f8c8d"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 980, 330, 200, 46, 28


def read_rates(paths):
    """{name: {workers: items a second}}"""
    rates = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            benchmarks = json.load(file)["benchmarks"]
        has_medians = any(b.get("aggregate_name") == "median" for b in benchmarks)
        for b in benchmarks:
            if "items_per_second" not in b or (has_medians and b.get("aggregate_name") != "median"):
                continue
            name, workers = b["run_name"].split("/")[:2]
            rates.setdefault(name, {})[int(workers)] = b["items_per_second"]
    return {name: by for name, by in rates.items() if name in LABELS}


def text(x, y, content, anchor="start", size=13, color="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">{escape(content)}</text>'


def bars(rates):
    """With two workers, the fastest first."""
    two = sorted(((by[2], name) for name, by in rates.items() if 2 in by), reverse=True)
    most = max(rate for rate, _ in two)
    yield text(LEFT, 24, "photographs a second, two workers", size=14)
    for i, (rate, name) in enumerate(two):
        y = TOP + i * GAP
        length = rate / most * 250
        yield text(LEFT - 8, y + 15, LABELS[name], "end")
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="20" fill="{COLORS.get(name, "#95a5c6")}"/>'
        yield text(LEFT + length + 6, y + 15, f"{rate:,.0f}")


def lines(rates):
    """Against the number of workers."""
    several = {name: sorted(by.items()) for name, by in rates.items() if len(by) > 1}
    if not several:
        return
    left, width, height = 620, 300, 200
    counts = sorted({workers for by in several.values() for workers, _ in by})
    most = max(rate for by in several.values() for _, rate in by) * 1.1
    yield text(left, 24, "against the number of workers", size=14)
    yield f'<path d="M{left},{TOP}v{height}h{width}" fill="none" stroke="#222"/>'
    at = lambda workers, rate: (left + (counts.index(workers) + 0.5) * width / len(counts), TOP + height * (1 - rate / most))
    for workers in counts:
        yield text(at(workers, 0)[0], TOP + height + 18, str(workers), "middle")
    for share in (0.25, 0.5, 0.75, 1):
        rate = most / 1.1 * share
        yield text(left - 6, at(counts[0], rate)[1] + 4, f"{rate:,.0f}", "end", 11)
    for i, (name, by) in enumerate(several.items()):
        points = " ".join("{:.1f},{:.1f}".format(*at(workers, rate)) for workers, rate in by)
        color = COLORS.get(name, "#95a5c6")
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"/>'
        yield text(left + 10, TOP + height + 40 + i * 17, "— " + LABELS[name], color=color)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    rates = read_rates(sys.argv[2:])
    if not any(2 in by for by in rates.values()):
        sys.exit("There are no figures with two workers in " + ", ".join(sys.argv[2:]))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">\n')
        file.write('<rect width="100%" height="100%" fill="white"/>\n')
        file.write("\n".join([*bars(rates), *lines(rates)]))
        file.write("\n</svg>\n")


if __name__ == "__main__":
    main()
