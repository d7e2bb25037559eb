"""Many clients at once: no error, no lost stroke, the same model for all."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from app.served import serving, stroke_body
from mergesvm.tagging.strokes import Stroke
from tagging_pictures import write_pictures

CLIENTS, SECONDS = int(os.environ.get("MERGESVM_CLIENTS", "12")), float(os.environ.get("MERGESVM_SECONDS", "4"))


def work(server, person, until):
    """Stroke, look, and remove every third stroke; returns the keys that are there in the end."""
    there, requests = set(), 0
    with httpx.Client(base_url=server.address, timeout=120) as client:
        while time.monotonic() < until or requests < 6:
            key, point = f"{person}-{requests}", Stroke((((requests % 9 + 1) / 10, (person % 9 + 1) / 10),), 0.1)
            body = stroke_body(key, f"tiger{person % 2}.png", f"tag {person % 5}", point)
            assert client.post("/api/strokes", json=body).status_code == 201
            there.add(key)
            if requests % 3 == 2:
                assert client.post("/api/strokes/remove", json={"keys": [key]}).json() == {"removed": [key]}
                there.discard(key)
            looked = client.post("/api/heat-maps", json={"tag": f"tag {person % 5}", "pictures": ["zebra0.png"]})
            assert looked.status_code == 200
            assert '"scores"' in looked.text
            requests += 1
    return there, requests


def test_many_clients_lose_nothing(tmp_path):
    write_pictures(tmp_path / "pictures", 2)
    with serving(tmp_path / "pictures") as server:
        until = time.monotonic() + SECONDS
        with ThreadPoolExecutor(CLIENTS) as pool:
            done = list(pool.map(lambda person: work(server, person, until), range(CLIENTS)))
        with server.client() as client:
            kept = {each["key"] for each in client.get("/api/strokes").json()}
        assert kept == set().union(*(there for there, _ in done))
        assert server.process.poll() is None
    print(f"{CLIENTS} clients: {sum(count for _, count in done)} strokes")  # noqa: T201
