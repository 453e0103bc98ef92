"""Files that are stored against another one, or say so: spec/format.md, section 5.6. The base of
those that are sound but for one thing is handmade_container.cfck."""

from __future__ import annotations

from broken_payloads import stored_frame
from broken_vectors import Broken, digest, pack_of, raw_record, set_field
from broken_vectors import sound as without_base
from layout import HAS_BASE, Entry, Layout, frame

BASE = "handmade_container.cfck"
DELTA = 5
HAS_PREAMBLE, HAS_ERROR, FLAG = 2, 4, 16
STORED, UNCHANGED = b"\0", b"\1"
OLD = bytes(range(100))
NEW = OLD[:40] + bytes(255 - value for value in OLD[40:80]) + OLD[80:]


def chunked(layout: Layout, payloads: tuple[bytes, ...], preamble: bytes, behind: bytes) -> None:
    """Appends a record of U8 in chunks of 40 values; `behind` is behind the last one's frame."""
    offset = len(layout.body)
    frames = [frame(b"PREA", preamble)] if preamble else []
    frames += [frame(b"CHNK", payload) for payload in payloads]
    frames[-1] += behind
    layout.body += b"".join(frames)
    entry = Entry(b"chunked", [100], [], codec=DELTA, entropy=2, b=offset, c=40)
    entry.flags = FLAG | (HAS_PREAMBLE if preamble else 0)
    entry.chunks = [[len(extent), 0] for extent in frames]
    entry.digest, entry.base_digest = digest(NEW), digest(OLD)
    layout.entries.append(entry)


SOUND = (UNCHANGED, STORED + NEW[40:80], UNCHANGED)


def sound(payloads=SOUND, preamble=b"", behind=b"", p=STORED + b"wxyz") -> Layout:
    """A valid file: chunks, a pack with an unchanged record, a duplicate and an alias of a
    difference, and a record that is stored against nothing. The stages do not matter."""
    layout = Layout.empty()
    layout.required, layout.base_name = HAS_BASE, BASE.encode()
    chunked(layout, payloads, preamble, behind)
    packed = [
        Entry(b"p", [4], [], codec=DELTA, entropy=1, flags=FLAG, digest=digest(b"wxyz")),
        Entry(b"q", [2, 2], [], dtype=2, codec=DELTA, flags=FLAG, digest=digest(b"\x21\x43")),
    ]
    packed[0].base_digest, packed[1].base_digest = digest(b"abcd"), digest(b"\x21\x43")
    pack_of([p, UNCHANGED], packed, layout)
    twin = Entry(b"twin", [4], [], kind=3, codec=DELTA, entropy=1, a=1, digest=digest(b"wxyz"))
    view = Entry(b"view", [2], [2], kind=2, codec=DELTA, entropy=1, a=1, digest=digest(b"wy"))
    layout.entries += [twin, view]
    raw_record(b"alone", b"more", 4, layout)
    layout.rehash()
    return layout


CHUNKED, P, Q, TWIN, VIEW, ALONE = range(6)


def changed(name: str, *changes, code: str = "corrupt", record: str | None = None) -> Broken:
    """`changes` get the sound layout; without a record the file must fail to open."""
    layout = sound()
    for change in changes:
        change(layout)
    return Broken(name, code, "read" if record else "open", layout.seal(), record, BASE)


def with_flag(number: int, **fields):
    """Makes an entry one that is stored against a base."""

    def change(layout: Layout) -> None:
        entry = layout.entries[number]
        set_field(number, **fields)(layout)
        entry.flags |= FLAG
        entry.base_digest = bytes(16)

    return change


def without_flag(number: int):
    return set_field(number, flags=0, base_digest=b"")


def named(name: bytes):
    def change(layout: Layout) -> None:
        layout.base_name = name

    return change


def required(features: int):
    def change(layout: Layout) -> None:
        layout.required = features

    return change


def in_the_tail() -> list[Broken]:
    feature, name = without_base(), without_base()
    feature.required = HAS_BASE
    name.base_name = b"base.cfck"
    return [
        changed("base_without_the_feature", required(0)),
        Broken("base_feature_of_nothing", "corrupt", "open", feature.seal()),
        changed("base_feature_of_another_bit", required(8), code="unsupported"),
        Broken("base_name_of_nothing", "corrupt", "open", name.seal()),
    ]


def in_flags() -> list[Broken]:
    def added(**fields):
        def change(layout: Layout) -> None:
            layout.entries.append(Entry(b"e", [0], [], c=1, codec=DELTA, entropy=2))
            set_field(-1, **fields)(layout)

        return change

    bound = b"\0\0\0\0\0\0\xf0\x3f" + bytes(16) + b"\1" + bytes(7)
    return [
        changed("base_of_raw", with_flag(ALONE)),
        changed("base_of_lossless", with_flag(ALONE, codec=1, entropy=2)),
        changed("base_of_rows", with_flag(ALONE, codec=4, entropy=2)),
        changed("base_of_direct", with_flag(ALONE, codec=2, flags=HAS_ERROR, error=bound)),
        changed("base_of_hidden", with_flag(Q, name=b"", flags=1)),
        changed("base_of_an_alias", with_flag(VIEW)),
        changed("base_of_a_duplicate", with_flag(TWIN)),
        changed("base_of_no_elements", added(flags=FLAG, base_digest=bytes(16))),
        changed("delta_without_elements", added()),
        changed("delta_without_a_base", without_flag(Q)),
        changed("delta_hidden_without_a_base", set_field(Q, name=b"", flags=1, base_digest=b"")),
        changed("delta_with_an_error", set_field(Q, flags=FLAG | HAS_ERROR, error=bound)),
        changed("base_unknown_flag", set_field(Q, flags=FLAG | 32)),
        changed("base_digest_cut", set_field(Q, base_digest=bytes(8))),
        changed("base_digest_missing", set_field(Q, base_digest=b"")),
        changed("base_digest_left_over", set_field(Q, base_digest=bytes(32))),
    ]


def in_names() -> list[Broken]:
    names = {
        "slash": b"folder/base.cfck",
        "absolute": b"/base.cfck",
        "folder_above": b"../base.cfck",
        "slash_behind": b"base.cfck/",
        "backslash": b"folder\\base.cfck",
        "zero": b"base.cfck\0",
        "dot": b".",
        "two_dots": b"..",
        "256_bytes": b"n" * 251 + b".cfck",
        "not_utf8": b"base\xff.cfck",
        "surrogate": b"base\xed\xa0\x80.cfck",
    }
    return [changed(f"base_name_{name}", named(content)) for name, content in names.items()]


def in_records() -> list[Broken]:
    """Faults that show when a record is read, and of records of codec delta."""

    def payload(name: str, p: bytes, record: str = "p", **parts) -> Broken:
        return Broken(name, "corrupt", "read", sound(p=p, **parts).seal(), record, BASE)

    def missing(name: str, *changes, record: str = "p") -> Broken:
        return changed(name, *changes, code="missing_base", record=record)

    elsewhere, in_memory = (changed("", named(name)).data for name in (b"nowhere.cfck", b""))
    preamble = sound(preamble=b"\1").seal()
    symbols = sound(behind=stored_frame(b"\0")).seal()
    short = (UNCHANGED, STORED + NEW[40:79], UNCHANGED)
    wrong = sound()
    wrong.entries[Q].digest = bytes(16)
    return [
        Broken("base_nowhere", "missing_base", "read", elsewhere, "p"),
        Broken("base_was_in_memory", "missing_base", "read", in_memory, "twin"),
        missing("base_of_another_digest", set_field(P, base_digest=digest(b"abce"))),
        missing("base_of_another_digest_chunked", set_field(CHUNKED, base_digest=bytes(16)),
                record="chunked"),
        missing("base_of_another_digest_alias", set_field(P, base_digest=bytes(16)),
                record="view"),
        missing("base_of_another_shape", set_field(Q, shape=[4]), record="q"),
        missing("base_of_another_dtype", *(set_field(i, dtype=6) for i in (P, TWIN, VIEW))),
        missing("base_without_the_name", set_field(Q, name=b"r"), record="r"),
        Broken("delta_with_a_preamble", "corrupt", "open", preamble, None, BASE),
        Broken("delta_symbol_frame_behind", "corrupt", "read", symbols, "chunked", BASE),
        payload("delta_stored_chunk_cut", STORED + b"wxyz", "chunked", payloads=short),
        payload("delta_stored_cut", STORED + b"wxy"),
        payload("delta_stored_left_over", STORED + b"wxyz."),
        payload("delta_unchanged_left_over", UNCHANGED + b"."),
        payload("delta_mode_3", b"\3wxyz"),
        payload("delta_classes_cut", b"\2"),
        Broken("delta_of_another_digest", "checksum", "verify", wrong.seal(), "q", BASE),
    ]  # fmt: skip
