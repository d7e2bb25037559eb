"""Pictures of all formats are read upright; broken, foreign and huge ones are refused."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mergesvm.errors import MalformedFileError, MissingFileError, MissingFolderError
from mergesvm.tagging.pictures import find_picture, list_pictures, open_mask, open_picture, picture_size, thumbnail


def gradient(height=40, width=60):
    y, x = np.mgrid[:height, :width]
    return np.stack([4 * x, 5 * y, np.full_like(x, 128)], axis=-1).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp", "a.jpg"])
def test_formats_are_read_alike(name, tmp_path):
    Image.fromarray(gradient()).save(tmp_path / name, quality=95, lossless=True)
    found = open_picture(tmp_path / name).astype(int)
    assert found.shape == (40, 60, 3)
    assert np.abs(found - gradient()).max() <= (0 if name != "a.jpg" else 12)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_pictures_are_upright(orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(gradient()).save(tmp_path / "a.png", exif=exif)
    turned = [
        lambda a: a,
        lambda a: a[:, ::-1],
        lambda a: a[::-1, ::-1],
        lambda a: a[::-1],
        lambda a: a.transpose(1, 0, 2),
        lambda a: np.rot90(a, -1),
        lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        lambda a: np.rot90(a),
    ][orientation - 1](gradient())
    np.testing.assert_array_equal(open_picture(tmp_path / "a.png"), turned)
    assert picture_size(tmp_path / "a.png") == turned.shape[:2]


def test_large_pictures_are_reduced_to_the_working_size(tmp_path):
    Image.fromarray(np.kron(gradient(), np.ones((20, 20, 1), np.uint8))).save(tmp_path / "a.png")
    found = open_picture(tmp_path / "a.png", side=60)
    assert found.shape == (40, 60, 3)
    assert np.abs(found.astype(int) - gradient()).max() <= 2


def test_grey_deep_and_transparent_pictures(tmp_path):
    Image.fromarray(gradient()[..., 0]).save(tmp_path / "grey.png")
    assert (np.ptp(open_picture(tmp_path / "grey.png"), axis=2) == 0).all()
    Image.fromarray(np.full((5, 5), 65535, np.uint16)).save(tmp_path / "deep.png")
    assert (open_picture(tmp_path / "deep.png") == 255).all()
    Image.fromarray(np.zeros((5, 5, 4), np.uint8)).save(tmp_path / "clear.png")
    assert (open_picture(tmp_path / "clear.png") == 255).all()
    Image.new("P", (5, 5)).save(tmp_path / "indexed.png")
    assert open_picture(tmp_path / "indexed.png").shape == (5, 5, 3)


def bomb(path, width, height):
    """A PNG file that claims a size far beyond its few bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)))


def test_what_is_no_picture_is_named(tmp_path):
    (tmp_path / "text.jpg").write_text("no picture")
    Image.fromarray(gradient()).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:60])
    (tmp_path / "vector.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n")
    bomb(tmp_path / "bomb.png", 60_000, 60_000)
    for name in ("text.jpg", "cut.png", "vector.png", "bomb.png"):
        for read in (open_picture, lambda path: thumbnail(path, 64)):
            with pytest.raises(MalformedFileError, match=name):
                read(tmp_path / name)
    with pytest.raises(MalformedFileError, match="cannot be decoded"):
        open_mask(tmp_path / "bomb.png", (10, 10))


def test_folders_are_listed_without_hidden_files_and_links_that_lead_out(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    Image.fromarray(gradient()).save(outside / "secret.png")
    folder = tmp_path / "pictures"
    for name in ("b.png", "a.JPG", "sub/c.png", ".hidden/d.png", ".e.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(gradient()).save(folder / name)
    (folder / "notes.txt").write_text("text")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.png")).write_bytes((folder / "b.png").read_bytes())
    (folder / "link.png").symlink_to(outside / "secret.png")
    assert list_pictures(folder) == ["a.JPG", "b.png", "sub/c.png"]
    assert find_picture(folder, "sub/c.png") == folder / "sub/c.png"
    for name in (
        "../outside/secret.png",
        "link.png",
        "/etc/passwd",
        ".hidden/d.png",
        "notes.txt",
        "none.png",
        "a\0.png",
        "a" * 300 + ".png",
        "./b.png",
    ):
        with pytest.raises(MissingFileError):
            find_picture(folder, name)
    with pytest.raises(MissingFolderError, match="is not a folder"):
        list_pictures(folder / "none")
