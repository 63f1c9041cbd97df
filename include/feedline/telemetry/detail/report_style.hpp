// SPDX-License-Identifier: MIT
#pragma once
// The style of a report: light and dark, on screens of any width and on paper.
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Colours differ in lightness too, for people who see no difference in hue; texts have a contrast of 4.5 or more.
inline constexpr std::string_view report_style = R"(
:root { color-scheme: light dark; --paper: #f4f6f8; --card: #fff; --ink: #1b2530; --quiet: #52606d; --line: #d5dce3;
  --accent: #00639c; --range: #00639c38; --busy: #0a5c99; --waiting: #6fb1e4; --starved: #f0b429; --blocked: #c2477f; --throttled: #7b8794; }
@media (prefers-color-scheme: dark) { :root { --paper: #11161c; --card: #1a212a; --ink: #e6ebf0; --quiet: #a7b3bf; --line: #36424f;
  --accent: #6cb8f0; --range: #6cb8f040; --busy: #3d8fd1; --waiting: #a5d3f5; --starved: #f2c14e; --blocked: #e0719f; --throttled: #8594a3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.6rem; } h2 { margin: 2.2rem 0 .6rem; font-size: 1.2rem; } h3 { margin: 1.2rem 0 .4rem; font-size: 1rem; }
p { margin: .3rem 0 .6rem; } .quiet, figcaption span, summary { color: var(--quiet); font-size: .875rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .75rem; margin: 1rem 0 0; }
dl div, .findings li, .flow li > div, figure, .table { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; }
dl div { padding: .6rem .9rem; } dt { color: var(--quiet); font-size: .875rem; } dd { margin: 0; font-size: 1.35rem; font-weight: 600; }
.findings, .flow { list-style: none; margin: 0; padding: 0; }
.findings li { padding: .7rem 1rem; margin-bottom: .6rem; border-left: .3rem solid var(--accent); }
.findings b { display: inline-block; margin-right: .5rem; color: var(--accent); }
.flow { max-width: 46rem; } .flow li > div { padding: .6rem .9rem; border-left: .4rem solid var(--state); }
.flow b { margin-right: .5rem; } .flow svg.state { display: block; width: 100%; height: .8rem; margin: .4rem 0; border-radius: .2rem; }
.flow li > p { display: flex; gap: .75rem; align-items: center; margin: 0; padding-left: 1rem; min-height: 3rem; }
.flow li > p svg { flex: none; width: 48px; height: 100%; min-height: 3rem; align-self: stretch; fill: var(--accent); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .875rem; margin: 0 0 .6rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; margin-right: .4rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: .75rem; align-items: start; }
figure { margin: 0; padding: .7rem .9rem; min-width: 0; } figcaption { font-weight: 600; font-size: .9rem; margin-bottom: .3rem; }
.plot { display: grid; grid-template-columns: auto 1fr; gap: .15rem .4rem; font-size: .75rem; color: var(--quiet); }
.plot svg { width: 100%; height: 7rem; border: solid var(--line); border-width: 0 0 1px 1px; }
.y { display: flex; flex-direction: column; justify-content: space-between; text-align: right; line-height: 1; white-space: nowrap; }
.x { grid-column: 2; display: flex; justify-content: space-between; gap: .5rem; white-space: nowrap; }
polyline { fill: none; stroke: var(--accent); stroke-width: 1.5; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.range { fill: var(--range); } .plot rect { fill: var(--accent); }
.busy { fill: var(--busy); background: var(--busy); --state: var(--busy); } .waiting { fill: var(--waiting); background: var(--waiting); --state: var(--waiting); }
.starved { fill: var(--starved); background: var(--starved); --state: var(--starved); } .blocked { fill: var(--blocked); background: var(--blocked); --state: var(--blocked); }
.throttled { fill: var(--throttled); background: var(--throttled); --state: var(--throttled); }
.flow li { background: none; }
summary { cursor: pointer; } .table { overflow-x: auto; margin: .4rem 0 .8rem; } table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { padding: .3rem .7rem; text-align: right; font-variant-numeric: tabular-nums; border-top: 1px solid var(--line); white-space: nowrap; }
thead th { border-top: 0; color: var(--quiet); font-weight: 600; vertical-align: bottom; } th:first-child { text-align: left; font-weight: 500; white-space: normal; min-width: 8rem; }
thead th { white-space: normal; }
figure .table { border: 0; margin: .2rem 0 0; } figure th, figure td { padding: .1rem .4rem; font-size: .8rem; } figure th:first-child { min-width: 4rem; }
@media print { :root { --paper: #fff; } body { font-size: 11pt; padding: 0; max-width: none; } figure, .findings li, .flow li { break-inside: avoid; }
  h2, h3 { break-after: avoid; } details { display: none; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)";

} // namespace feedline::inline FEEDLINE_ABI::detail
