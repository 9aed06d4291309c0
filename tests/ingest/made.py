"""Documents of formats that are no text, made as small as they can be."""

from __future__ import annotations

import io
import struct
import zipfile

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def archive(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files.items():
            made.writestr(name, text)
    return out.getvalue()


def bomb(data: bytes) -> bytes:
    """The archive, whose list says that its first file unpacks to 1 GiB."""
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + (1 << 30).to_bytes(4, "little") + data[at + 4 :]


def crowded(data: bytes, count: int) -> bytes:
    """The archive of one file, whose list names that file `count` times."""
    at, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    listed = data[at:end] * count
    return data[:at] + listed + struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, count, count, len(listed), at, 0)


def docx(*paragraphs: str, body: str = "") -> bytes:
    """A Word document; the first paragraph is its heading."""
    styles = ['<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>', *[""] * len(paragraphs)]
    text = body or "".join(
        f"<w:p>{style}<w:r><w:t>{one}</w:t></w:r></w:p>" for style, one in zip(styles, paragraphs, strict=False)
    )
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
            f'<Default Extension="rels" ContentType="{rels}"/>'
            f'<Override PartName="/word/document.xml" ContentType="{kind}"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r"'
            f' Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{text}</w:body></w:document>',
            "word/styles.xml": f'<w:styles xmlns:w="{_WORD}"><w:style w:type="paragraph" w:styleId="Heading1">'
            '<w:name w:val="heading 1"/></w:style></w:styles>',
        }
    )


def epub(*pages: str) -> bytes:
    items = "".join(f'<item id="p{n}" href="p{n}.html"/>' for n in range(len(pages)))
    spine = "".join(f'<itemref idref="p{n}"/>' for n in reversed(range(len(pages))))
    return archive(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="in/book.opf"/></rootfiles>'
            "</container>",
            "in/book.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A Book</dc:title>'
            f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"in/p{n}.html": page for n, page in enumerate(pages)},
        }
    )


def pdf(*pages: str) -> bytes:
    """Each page has one line of text."""
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{' '.join(f'{4 + 2 * n} 0 R' for n in range(len(pages)))}]/Count {len(pages)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
        objects += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {5 + 2 * number} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>",
            f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream",
        ]
    out = b"%PDF-1.4\n"
    places = []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{one}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(out)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    return out + f"{head}trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF".encode()


def xlsx(rows: list[list[object]]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def pptx(title: str, text: str) -> bytes:
    import pptx as library

    show = library.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = title
    slide.placeholders[1].text = text
    out = io.BytesIO()
    show.save(out)
    return out.getvalue()
