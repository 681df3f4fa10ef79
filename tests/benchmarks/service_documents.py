"""What the worst documents, and many at once, do to those who use the service meanwhile.

`python tests/benchmarks/service_documents.py [NAME …]`; names choose among the documents. Each is
uploaded to a service of its own, whose pings are timed while it is read. Then questions are timed
while sources come in without end. With `--json FILE` the figures are written as well.
"""

import argparse
import io
import statistics
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
from measuring import Figure, report
from service_load import accepting, percentile, text_of

from knowledge_bot_service import LocalService

# How long a document may take until it is ready or failed, in seconds.
PATIENCE = 180.0

# How often the service is asked whether it is there, in seconds.
PAUSE = 0.01

# How many questions are asked at most, and for how long, in seconds.
QUESTIONS, SECONDS = 500, 8.0

# How many texts are asked about as soon as they are accepted.
TEXTS = 60


def main() -> None:
    """Measure every document, or those that are named, and the questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"documents ({', '.join(WORST)}) or 'questions'")
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    names: list[str] = parser.parse_args().names or [*WORST, "held", "questions"]
    rows: list[dict[str, Any]] = []
    figures: list[Figure] = []
    for name in names:
        if name == "questions":
            figures += questions()
        elif name == "held":
            figures += held()
        else:
            row = worst(name)
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            figures.append(Figure(f"{name}: ping p99, ms", row["ping p99, ms"], 250))
    report("Documents, and those who use the service meanwhile", figures, rows)


def worst(name: str) -> dict[str, Any]:
    """Upload one document to a new service, and time pings until it is ready or failed."""
    filename, make = WORST[name]
    content = make()
    with LocalService() as service, client_of(service) as client:
        upload(client, filename, content)
        began = time.perf_counter()
        with pinging(service) as pings:
            wait(service, PATIENCE)
        (state,) = service.sources()
        return {
            "document": name,
            "MB": round(len(content) / 1e6, 1),
            "seconds": round(time.perf_counter() - began, 1),
            "status": state.status,
            "reason": state.reason or "",
            "ping p99, ms": round(percentile(pings, 99), 1),
            "ping max, ms": round(max(pings), 1),
            "service's peak, MB": peak_memory(service),
        }


def held() -> list[Figure]:
    """How long a short text waits that comes after four documents which take long."""
    with LocalService() as service, client_of(service) as client:
        for _ in range(4):
            upload(client, "list.md", nested_list(1800))
        began = time.perf_counter()
        add_text(client, "Short", "The lamp in the tower is green.")
        while service.sources()[-1].status != "ready":
            time.sleep(0.02)
        return [
            Figure("a short text after four nested lists is ready, s", time.perf_counter() - began)
        ]


def questions() -> list[Figure]:
    """Questions while texts come in without end, or a long one is read, and once all is done.

    The index is the same for both then, or smaller at first.
    """
    figures = []
    for name, content in {"short": "A short text. " * 60, "longer": text_of(20)}.items():
        with LocalService() as service, client_of(service) as client:
            begin(service, client)
            with accepting(service, content, 2) as accepted:
                time.sleep(1)
                busy = ask(client, QUESTIONS)
                known = known_at_once(client)
            come_in = f"while {len(accepted):,} {name} texts come in"
            figures += told(come_in, busy, idle(service, client))
            figures.append(Figure(f"of {TEXTS} texts asked about at once meanwhile, known", known))
    with LocalService() as service, client_of(service) as client:
        begin(service, client)
        add_text(client, "Long", text_of(20_000))
        time.sleep(0.5)
        busy = ask(client, QUESTIONS)
        figures += told("while a text of 15 MB is read", busy, idle(service, client))
    return figures


def begin(service: LocalService, client: httpx.Client) -> None:
    """Have 3,000 passages and some questions behind."""
    for _ in range(30):
        add_text(client, "Base", text_of(100))
    service.wait_until_ready(600)
    ask(client, 50)


def idle(service: LocalService, client: httpx.Client) -> list[float]:
    """What questions take when all is done, in milliseconds."""
    began = time.perf_counter()
    service.wait_until_ready(600)
    print(f"all is ready after {time.perf_counter() - began:.1f} s", file=sys.stderr)
    ask(client, 50)
    return ask(client, QUESTIONS)


def told(name: str, busy: list[float], idle: list[float]) -> list[Figure]:
    """The figures of questions beside those of a service that does nothing else."""
    return [
        Figure(f"question p50 {name}, ms", statistics.median(busy)),
        Figure(f"question p99 {name}, ms", percentile(busy, 99)),
        Figure("… once all is done, ms", percentile(idle, 99)),
        Figure("… ratio", percentile(busy, 99) / percentile(idle, 99), 3),
    ]


def ask(client: httpx.Client, number: int) -> list[float]:
    """Ask many questions; return what each took, in milliseconds."""
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < number and (began := time.perf_counter()) < end:
        one = len(times)
        value = {"bot_id": "bot_default", "content": QUESTION_TEXTS[one % len(QUESTION_TEXTS)]}
        client.post("/messages", json={"value": value}).raise_for_status()
        times.append((time.perf_counter() - began) * 1000)
    return times


def known_at_once(client: httpx.Client) -> int:
    """Add texts, and ask about each at once; return of how many the answer knew."""
    known = 0
    for number in range(TEXTS):
        add_text(client, f"Engine {number}", f"The engine zork{number} weighs {number + 1000} kg.")
        value = {"bot_id": "bot_default", "content": f"How heavy is the engine zork{number}?"}
        answer = client.post("/messages", json={"value": value}).raise_for_status().text
        known += f"{number + 1000} kg" in answer
    return known


@contextmanager
def pinging(service: LocalService) -> Iterator[list[float]]:
    """Ping the service all the time; afterwards the list has what each took, in milliseconds."""
    times: list[float] = []
    ended = False

    def ping() -> None:
        with client_of(service) as client:
            while not ended:
                began = time.perf_counter()
                client.get("/ping").raise_for_status()
                times.append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE)

    thread = Thread(target=ping)
    thread.start()
    try:
        yield times
    finally:
        ended = True
        thread.join()


def wait(service: LocalService, seconds: float) -> None:
    """Wait until every source is ready or failed, and a little longer."""
    with suppress(TimeoutError):
        service.wait_until_ready(seconds)
    time.sleep(0.2)


def add_text(client: httpx.Client, name: str, content: str) -> None:
    """Add a text as a source."""
    value = {"name": name, "collections": ["col_default"], "content": content}
    client.post("/sources/write", json={"value": value}).raise_for_status()


def upload(client: httpx.Client, filename: str, content: bytes) -> None:
    """Add a file as a source."""
    form = {"name": filename, "collections": "col_default"}
    client.post(
        "/sources/upload", data=form, files={"file": (filename, content)}
    ).raise_for_status()


def client_of(service: LocalService) -> httpx.Client:
    """A plain client of the service."""
    headers = {"X-API-KEY": service.api_key}
    return httpx.Client(base_url=service.base_url, headers=headers, timeout=120)


def peak_memory(service: LocalService) -> int:
    """The most memory that the service itself has had, in MB."""
    status = Path(f"/proc/{service.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1000


def nested_list(depth: int) -> bytes:
    """A Markdown list whose every item is in the one before."""
    return "".join("  " * level + f"- item {level}\n" for level in range(depth)).encode()


def table(rows: int, columns: int) -> bytes:
    """A table as CSV."""
    heading = ",".join(f"c{number}" for number in range(columns))
    row = "\n" + ",".join(["1"] * columns)
    return (heading + row * rows).encode()


def pdf(content: bytes, *, pages: int = 1, filter_name: bytes = b"") -> bytes:
    """A PDF whose pages all show the same content."""
    first = 5
    kids = b" ".join(b"%d 0 R" % (first + number) for number in range(pages))
    packed = b"/Filter/%s" % filter_name if filter_name else b""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, pages),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Length %d%s>>stream\n%s\nendstream" % (len(content), packed, content),
    ]
    of_page = b"/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>>>"
    objects += [b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]%s>>" % of_page] * pages
    data = io.BytesIO()
    data.write(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(data.tell())
        data.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = data.tell()
    data.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    data.write(b"".join(b"%010d 00000 n \n" % offset for offset in offsets))
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    data.write(end % (len(objects) + 1, start))
    return data.getvalue()


SHOWN = b"BT /F1 12 Tf 72 720 Td (The lamp is green.) Tj ET\n"


def flate_bomb() -> bytes:
    """A PDF of a megabyte whose page unpacks to a gigabyte."""
    packer = zlib.compressobj(9)
    packed = [packer.compress(b" " * 1_000_000) for _ in range(1000)]
    packed += [packer.compress(SHOWN), packer.flush()]
    return pdf(b"".join(packed), filter_name=b"FlateDecode")


def docx(body: bytes) -> bytes:
    """A Word document with a body of XML."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml",
            b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            b"<w:body>" + body + b"</w:body></w:document>",
        )
    return packed.getvalue()


def page(body: str) -> bytes:
    """An HTML page."""
    return f"<!doctype html><html><body>{body}</body></html>".encode()


SENTENCE = "The office in the old town opens every day at nine and closes at five. "

WORST: dict[str, tuple[str, Callable[[], bytes]]] = {
    "list, 0.3 MB": ("list.md", lambda: nested_list(500)),
    "list, 1 MB": ("list.md", lambda: nested_list(1000)),
    "list, 3.2 MB": ("list.md", lambda: nested_list(1800)),
    "list, 9 MB": ("list.md", lambda: nested_list(3000)),
    "one character": ("zh.txt", lambda: "文".encode() * 15_000_000),
    "one word": ("word.txt", lambda: b"word " * 10_000_000),
    "one line": ("line.txt", lambda: SENTENCE.encode() * (50_000_000 // len(SENTENCE))),
    "one word without spaces": ("x.txt", lambda: b"x" * 50_000_000),
    "dots": ("dots.txt", lambda: b". " * 20_000_000),
    "square table": ("square.csv", lambda: table(3000, 3000)),
    "wide table": ("wide.csv", lambda: table(1, 1_000_000)),
    "brackets": ("deep.json", lambda: b"[" * 10_000_000),
    "accents": ("marks.txt", lambda: b"a" + "\u0301\u0316".encode() * 1_000_000),
    "marks": ("marks.md", lambda: b"# A\n\n" + b"**_[`<" * 1_000_000),
    "slow PDF": ("slow.pdf", lambda: pdf(SHOWN * 400_000)),
    "PDF bomb": ("bomb.pdf", flate_bomb),
    "100,000 pages": ("pages.pdf", lambda: pdf(SHOWN, pages=100_000)),
    "100,000 links": ("links.html", lambda: page("<p><a href='/a'>A link.</a></p>" * 100_000)),
    "nested HTML": ("deep.html", lambda: page("<div>" * 200 + "<b>x" * 300_000)),
    "nested XML": ("deep.xml", lambda: b"<a>" * 2_000_000),
    "many elements": ("many.xml", lambda: b"<r>" + b"<a>text</a>" * 1_500_000 + b"</r>"),
    "Word bomb": ("bomb.docx", lambda: docx(b" " * 300_000_000)),
    "long Word": ("long.docx", lambda: docx(b"<w:p><w:r><w:t>Text.</w:t></w:r></w:p>" * 1_500_000)),
}

QUESTION_TEXTS = [f"Which {' '.join(text_of(1).split()[:6])}?" for _ in range(50)]


if __name__ == "__main__":
    main()
