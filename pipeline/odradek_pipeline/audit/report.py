"""The result as JSON, as lines for a terminal, and as one HTML page that fetches nothing."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek_pipeline.audit.findings import FAULTS, TOLD
from odradek_pipeline.audit.sides import COMPARED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "missing": "missing",
    "twice": "twice",
    "extra": "extra",
    "aborted_in_table": "aborted, and in the table",
    "markers_in_table": "rows of markers",
    "different": "different",
    "gone": "gone by retention",
    "holes": "gone, and not in the table",
    "compacted": "gone by compaction",
    "damaged": "damaged in the topic",
}
NAMES = {"key": "keys", "value": "values", "headers": "headers", "timestamp": "timestamps"}
COLOURS = {
    "missing": "#c62828",
    "twice": "#ef6c00",
    "extra": "#6a1b9a",
    "aborted_in_table": "#ad1457",
    "markers_in_table": "#4e342e",
    "different": "#1565c0",
    "gone": "#90a4ae",
    "holes": "#cfd8dc",
    "compacted": "#b0bec5",
    "damaged": "#f9a825",
}
_SHOWN = 20
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right}
th{background:#f5f5f5}td:first-child,th:first-child,td.t{text-align:left}.bad{color:#c62828;font-weight:600}
.ok{color:#2e7d32;font-weight:600}svg{max-width:100%;height:auto}code{background:#f5f5f5;padding:0 .2rem}
dt{font-weight:600}dd{margin:0 0 .5rem 1rem}"""


def lines(result: Mapping[str, Any]) -> list[str]:
    """What a person reads first: the verdict, and each partition with something wrong."""
    out = [partition_line(found) for found in result.get("partitions", ()) if not found["ok"]]
    for found in result.get("replicas", ()):
        if not found["ok"]:
            out += _replica_lines(found)
    out += result.get("damage", ())
    return [*out, summary(result)]


def partition_line(found: Mapping[str, Any]) -> str:
    """What is wrong in a partition."""
    parts = [f"{found[name]['count']:,} {LABELS[name]}" for name in FAULTS if found[name]["count"]]
    return f"partition {found['partition']}: {', '.join(parts)}; {_first_of(found)}"


def summary(result: Mapping[str, Any]) -> str:
    """The verdict in a sentence."""
    if "replicas" in result:
        bad = sum(not found["ok"] for found in result["replicas"])
        total = len(result["replicas"])
        return f"{total} partitions on {len(result['folders'])} replicas: " + (
            "all are the same and whole" if not bad else f"{bad} are not the same, or not whole"
        )
    records = sum(found["records"] for found in result["partitions"])
    bad = sum(found[name]["count"] for found in result["partitions"] for name in FAULTS)
    waiting = sum(found["waiting"] for found in result["partitions"])
    rest = f"; {waiting:,} offsets are behind the newest batch" if waiting else ""
    verdict = _all_is_well(result) if result["ok"] else f"{bad:,} offsets are not as they should be"
    return f"{result['topic']}: {records:,} records in {len(result['partitions'])} partitions: {verdict}{rest}"


def _all_is_well(result: Mapping[str, Any]) -> str:
    """That nothing is wrong, and what that does not include."""
    unsure = sum(found["not_compared"] for found in result["partitions"])
    left_out = [NAMES[name] for name in COMPARED if name not in result["compared"]]
    if unsure:
        left_out.append(f"{unsure:,} values")
    if not left_out:
        return "the table has each once and as it is"
    return f"the table has each once; {' and '.join(left_out)} could not be compared, all else is as it is"


def _first_of(found: Mapping[str, Any]) -> str:
    """The first few offsets of each fault."""
    parts = []
    for name in FAULTS:
        ranges = found[name]["ranges"]
        if ranges:
            shown = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges[:5])
            parts.append(f"{LABELS[name]}: {shown}{', ...' if len(ranges) > 5 else ''}")
    return "; ".join(parts)


def _replica_lines(found: Mapping[str, Any]) -> list[str]:
    where = f"{found['topic']}-{found['partition']}"
    out = []
    if first := found["first_difference"]:
        what = f"{', '.join(first['what'])} ({found['differing_batches']} batches)"
        out.append(f"{where}: the replicas differ from offset {first['offset']} on: {what}")
    for log in found["replicas"]:
        out += [f"{where}: {fault['text']} (offset {fault['offset']})" for fault in log["faults"][:_SHOWN]]
    for back in found["commits_that_go_back"][:_SHOWN]:
        place = f"{back['topic']}-{back['partition']}"
        out.append(f"{where}: group {back['group']} went back in {place} from {back['from']} to {back['to']}")
    return out


# -- the page


def write_page(path: Path, title: str, body: Sequence[str]) -> None:
    """One HTML file with everything in it."""
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
    path.write_text(f"{head}<h1>{escape(title)}</h1>" + "\n".join(body) + "</html>\n", encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """An HTML table; numbers get separators, and text is escaped."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"<td>{value:,}</td>" if isinstance(value, int) else f"<td>{value:,.1f}</td>"
    return f"<td class=t>{escape(str(value))}</td>"


def text(value: object) -> str:
    """A value as HTML shows it."""
    return escape(str(value))


def svg(figure: Figure) -> str:
    """A figure as SVG to put into a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def new_figure(height: float, rows: int = 1) -> tuple[Figure, list[Any]]:
    """A figure and its axes, drawn without a display, with its text as text: a `$` of a key begins no formula."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["text.parse_math"] = False
    figure = Figure(figsize=(11, height))
    FigureCanvasSVG(figure)
    return figure, [figure.add_subplot(rows, 1, number + 1) for number in range(rows)]


def audit_page(path: Path, result: Mapping[str, Any]) -> None:
    """The page of an audit: verdict, plot, and the numbers."""
    mark = "<p class=ok>" if result["ok"] else "<p class=bad>"
    body = [f"{mark}{escape(summary(result))}</p>"]
    if "replicas" in result:
        body += _replica_tables(result)
        write_page(path, "Audit of replicas", body)
        return
    found = result["partitions"]
    compared = ", ".join(result["compared"])
    body.append(f"<p><code>{escape(result['source'])}</code> against <code>{escape(result['table'])}</code>, ")
    body.append(f"compared by offset, and by {escape(compared)}. It took {result['seconds']} seconds.</p>")
    if result["damage"]:
        body.append("<h2>Damage in the log</h2>" + table(["what"], [[text] for text in result["damage"]]))
    if found:
        body.append("<h2>Where</h2>" + svg(_map(found)))
    names = [*FAULTS, *TOLD]
    head = ["partition", "start", "end", "compared to", "records", "rows", *(LABELS[name] for name in names)]
    numbers = ["partition", "start", "end", "until", "records", "rows"]
    body.append("<h2>Partitions</h2>")
    rows = [[one[name] for name in numbers] + [one[name]["count"] for name in names] for one in found]
    body.append(
        table(
            [*head, "aborted", "markers"],
            [[*row, one["aborted"], one["markers"]] for row, one in zip(rows, found, strict=True)],
        )
    )
    details = [
        [one["partition"], LABELS[name], first, last, last - first + 1]
        for one in found
        for name in FAULTS
        for first, last in one[name]["ranges"][:_SHOWN]
    ]
    if details:
        body.append(f"<h2>Offsets</h2><p>The first {_SHOWN} ranges of each kind; the JSON has more.</p>")
        body.append(table(["partition", "what", "from", "to", "offsets"], details))
    write_page(path, f"Audit of {result['topic']}", body)


def _map(found: Sequence[Mapping[str, Any]]) -> Figure:
    """A bar for each partition over its offsets, with what is wrong in it."""
    figure, (axes,) = new_figure(min(40.0, 1.2 + 0.3 * len(found)))
    used = set()
    for row, one in enumerate(found):
        end = max(one["end"], one["until"], 1)
        axes.barh(row, max(0, one["until"] - one["start"]) / end, left=one["start"] / end, height=0.6, color="#a5d6a7")
        for name, colour in COLOURS.items():
            spans = [(first / end, max((last - first + 1) / end, 0.003)) for first, last in one[name]["ranges"]]
            if spans:
                used.add(name)
                axes.broken_barh([span for span in spans if span[0] <= 1], (row - 0.3, 0.6), facecolors=colour)
    axes.set_yticks(range(len(found)), [f"{one['partition']}" for one in found])
    axes.set_ylabel("partition")
    axes.set_xlabel("offsets, from 0 to the partition's end")
    axes.set_xlim(0, 1.02)
    axes.invert_yaxis()
    from matplotlib.patches import Patch

    patches = [Patch(color="#a5d6a7", label="compared")]
    patches += [Patch(color=COLOURS[name], label=LABELS[name]) for name in COLOURS if name in used]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _replica_tables(result: Mapping[str, Any]) -> list[str]:
    head = ["partition", "folder", "start", "end", "high watermark", "batches", "open transactions", "faults"]
    rows = [
        [
            f"{one['topic']}-{one['partition']}",
            *(log[name] for name in ("folder", "start", "end")),
            "" if log["high_watermark"] is None else log["high_watermark"],
            *(log[name] for name in ("batches", "open_transactions", "fault_count")),
        ]
        for one in result["replicas"]
        for log in one["replicas"]
    ]
    wrong = [[line] for one in result["replicas"] if not one["ok"] for line in _replica_lines(one)]
    out = ["<h2>What is wrong</h2>" + table(["what"], wrong)] if wrong else []
    return [*out, "<h2>Logs</h2>" + svg(_ends(result["replicas"])), table(head, rows)]


def _ends(found: Sequence[Mapping[str, Any]]) -> Figure:
    """How far each replica goes, and from where on they differ."""
    shown = [one for one in found if not one["ok"]][:100] or list(found)[:100]
    figure, (axes,) = new_figure(min(40.0, 1.2 + 0.25 * sum(len(one["replicas"]) for one in shown)))
    names: list[str] = []
    for one in shown:
        end = max([log["end"] for log in one["replicas"]] + [1])
        for log in one["replicas"]:
            row = len(names)
            names.append(f"{one['topic']}-{one['partition']} {Path(log['folder']).parent.name}")
            axes.barh(row, (log["end"] - log["start"]) / end, left=log["start"] / end, color="#a5d6a7")
            marks = [fault["offset"] / end for fault in log["faults"]]
            axes.scatter(marks, [row] * len(marks), color=COLOURS["missing"], marker="x", zorder=3)
            if one["first_difference"]:
                axes.scatter(one["first_difference"]["offset"] / end, row, color=COLOURS["different"], zorder=3)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("offsets, from 0 to the end of the longest replica (x: fault, dot: the first difference)")
    axes.invert_yaxis()
    return figure
