"""The server answers people and programs, refuses strangers, and loses nothing that it has confirmed."""

from __future__ import annotations

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_iris

import mergesvm as ms
from app.served import serving, stroke_body
from mergesvm.tagging.heat_map import SCORE_RANGE
from mergesvm.tagging.strokes import Stroke
from tagging_pictures import stroke_over, write_pictures

POINT = Stroke(((0.5, 0.5),), 0.1)


@pytest.fixture(scope="module")
def masks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return folder, write_pictures(folder)


@pytest.fixture(scope="module")
def server(masks):
    folder, _ = masks
    with serving(folder) as running:
        yield running


@pytest.fixture
def client(server):
    with server.client() as opened:
        yield opened


def post(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def found(client, tag, method="merge"):
    text = client.post("/api/heat-maps", json={"tag": tag, "method": method}).text
    return {each["picture"]: each for each in map(json.loads, text.splitlines())}


def test_a_stroke_is_learned_found_elsewhere_and_forgotten(client, masks):
    folder, true = masks
    assert client.get("/api/state").json()["pictures"] == sorted(true)
    post(client, "/api/strokes", stroke_body("t1", "tiger0.png", "tiger", stroke_over(true["tiger0.png"])))
    facts = client.get("/api/facts", params={"tag": "tiger"}).json()
    assert (facts["pictures"], facts["trained"]) == (["tiger0.png"], True)
    maps = found(client, "tiger")
    ranked = sorted(maps, key=lambda name: maps[name]["rank"], reverse=True)
    assert all(name.startswith("tiger") for name in ranked[:4])
    one = maps["tiger1.png"]
    scores = np.frombuffer(base64.b64decode(one["scores"]), np.uint8).reshape(one["lines"], one["columns"])
    (folder / "exported.msvm").write_bytes(client.get("/api/model", params={"tag": "tiger"}).content)
    loaded = ms.load_model(folder / "exported.msvm")
    means = loaded.moments.means[0]
    pixels = np.asarray(Image.open(folder / "tiger1.png"))[40:100, 80:180].reshape(1, -1)
    score = loaded.decision_function(pixels)[0] * 2 / (means[1] - means[0])
    assert scores[5, 10] == pytest.approx(np.clip(128 + 127 / SCORE_RANGE * score, 0, 255), abs=1)
    removed = post(client, "/api/forget", {"tag": "tiger", "picture": "tiger0.png"})
    assert removed == {"removed": ["t1"]}
    assert found(client, "tiger") == {}
    assert "tiger" not in client.get("/api/state").json()["tags"]


def test_pictures_and_thumbnails_are_jpeg(client):
    for path in ("/api/thumbnails/tiger0.png", "/api/pictures/tiger0.png"):
        answer = client.get(path)
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.content.startswith(b"\xff\xd8")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/pictures/none.png", 404),
        ("/api/pictures/..%2f..%2fetc%2fpasswd", 404),
        ("/api/pictures/%2fetc%2fpasswd", 404),
        ("/api/pictures/.mergesvm%2fstrokes.sqlite", 404),
        ("/..%2f..%2fserver.py", 404),
        ("/api/facts?tag=tiger&method=forest", 422),
        ("/api/facts", 422),
        ("/api/model?tag=unknown", 422),
        ("/api/export?format=xls", 422),
        ("/api/knowledge/none", 404),
        ("/api/knowledge/..%2fx", 404),
        ("/api/nothing", 404),
    ],
)
def test_bad_addresses_are_refused(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert "detail" in answer.json()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"null",
        b'{"key": "k"}',
        b'{"key": "k", "picture": "tiger0.png", "tag": "t", "points": [[NaN, 0]]}',
        b'{"key": "k", "picture": "tiger0.png", "tag": "t", "points": [[1e400, 0]]}',
        b'{"key": "k", "picture": "../a.png", "tag": "t", "points": [[0, 0]]}',
        b'{"key": "k", "picture": "tiger0.png", "tag": "\\u0000", "points": [[0, 0]]}',
        b'{"key": "k", "picture": "tiger0.png", "tag": "t", "points": [[0, 0]], "more": 1}',
        b'{"key": "\\ud800", "picture": "tiger0.png", "tag": "t", "points": [[0, 0]]}',
    ],
    ids=lambda body: body[:40].decode(),
)
def test_bad_bodies_end_in_an_error_of_the_client(client, body):
    answer = client.post("/api/strokes", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert client.get("/api/strokes").status_code == 200


def test_requests_from_elsewhere_are_refused(client, server):
    port = httpx.URL(server.address).port
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"host": f"evil.example:{port}"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://127.0.0.1:{port + 1}"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ):
        assert client.get("/api/state", headers=headers).status_code == status
        body = stroke_body("evil", "tiger0.png", "tiger", POINT)
        assert client.post("/api/strokes", json=body, headers=headers).status_code == status
    assert client.get("/api/state", headers={"origin": f"http://127.0.0.1:{port}"}).status_code == 200
    assert client.get("/api/strokes").json() == []


def test_large_bodies_are_refused_whether_or_not_they_state_their_size(client):
    size = 65 * 2**20
    assert client.post("/api/strokes", content=b" " * size).status_code == 413
    chunks = (b" " * 2**20 for _ in range(65))
    with suppress(httpx.TransportError):  # the server may close the connection while we are sending
        assert client.post("/api/strokes", content=chunks).status_code == 413
    assert client.get("/api/state").status_code == 200


def test_pages_may_load_nothing_from_elsewhere(client):
    answer = client.get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    for name in ("app.js", "api.js", "editor.js", "grid.js", "heat.js", "style.css", "icon.svg"):
        text = client.get(f"/{name}").text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text


def test_others_hear_of_strokes(client, server):
    heard, ready = [], threading.Event()

    def listen():
        with server.client() as other, other.stream("GET", "/api/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    heard.append(json.loads(line[5:]))
                    ready.set()
                if len(heard) == 3:
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    assert ready.wait(30)
    post(client, "/api/strokes", stroke_body("e1", "zebra0.png", "zebra", POINT, "you"))
    post(client, "/api/strokes/remove", {"keys": ["e1"]})
    listener.join(30)
    assert [(each["kind"], each.get("tag"), each.get("picture")) for each in heard] == [
        ("hello", None, None),
        ("strokes", "zebra", "zebra0.png"),
        ("strokes", "zebra", "zebra0.png"),
    ]


def test_programs_learn_forget_merge_and_predict(client, tmp_path):
    X, y = load_iris(return_X_y=True)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        facts = post(client, "/api/knowledge/iris/learn", {"rows": X[half].tolist(), "labels": y[half].tolist()})
    assert facts == {"classes": [0, 1, 2], "rows": [50, 50, 50], "width": 4}
    batch = ms.solve(ms.learn(X, y))
    predicted = post(client, "/api/knowledge/iris/predict", {"rows": X.tolist()})["labels"]
    assert predicted == batch.predict(X).tolist()
    post(client, "/api/knowledge/iris/forget", {"rows": X[:30].tolist(), "labels": y[:30].tolist()})
    ms.learn(X[:30], y[:30]).save(tmp_path / "piece.knowledge")
    again = client.post("/api/knowledge/iris/file", content=(tmp_path / "piece.knowledge").read_bytes())
    assert again.json() == facts
    (tmp_path / "all.knowledge").write_bytes(client.get("/api/knowledge/iris/file").content)
    np.testing.assert_allclose(ms.solve(ms.load(tmp_path / "all.knowledge")).coef_, batch.coef_, atol=1e-9)
    assert client.delete("/api/knowledge/iris").status_code == 204
    assert client.get("/api/knowledge").json() == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/knowledge/a/learn", {"rows": [[1, 2], [3]], "labels": [0, 1]}),
        ("/api/knowledge/a/learn", {"rows": [[1, 2]], "labels": [0, 1]}),
        ("/api/knowledge/a/learn", {"rows": [[1, 2], [3, 4]], "labels": [0, "x"]}),
        ("/api/knowledge/a/learn", {"rows": [[1e308, 1], [-1e308, 2]], "labels": [0, 1]}),
        ("/api/knowledge/a/forget", {"rows": [[1, 2]], "labels": [0]}),
        ("/api/knowledge/a/predict", {"rows": [[1, 2]]}),
        ("/api/knowledge/a%20b/learn", {"rows": [[1, 2]], "labels": [0]}),
    ],
)
def test_bad_rows_are_refused(client, path, body):
    assert 400 <= client.post(path, json=body).status_code < 500
    assert client.post("/api/knowledge/a/file", content=b"no knowledge").status_code == 409
    assert client.get("/api/knowledge").json() == []


def test_a_token_is_needed_beyond_this_machine(masks):
    folder, _ = masks
    with serving(folder, "--host", "0.0.0.0", "--port", "0") as server:
        token = httpx.URL(server.address).params["token"]
        address = f"http://127.0.0.1:{httpx.URL(server.address).port}"
        with httpx.Client(base_url=address, timeout=60) as stranger:
            for path in ("/", "/app.js", "/api/state", "/api/state?token=wrong", "/api/openapi.json"):
                assert stranger.get(path).status_code == 401
            assert stranger.get("/api/state", headers={"authorization": f"Bearer {token}"}).status_code == 200
            first = stranger.get("/", params={"token": token})
            assert first.status_code == 303
            assert "token" not in first.headers["location"]
            assert stranger.get("/api/state").status_code == 200  # by the cookie


def test_killed_and_started_again_nothing_confirmed_is_lost(masks, tmp_path):
    folder = tmp_path / "pictures"
    write_pictures(folder, 2)
    confirmed, stop = [], threading.Event()
    with serving(folder) as server:

        def draw(person):
            with server.client() as client:
                for number in range(10_000):
                    key = f"{person}-{number}"
                    try:
                        answer = client.post("/api/strokes", json=stroke_body(key, "tiger0.png", "tiger", POINT))
                    except httpx.TransportError:
                        return
                    assert answer.status_code == 201
                    confirmed.append(key)
                    if len(confirmed) > 60:
                        stop.set()

        with ThreadPoolExecutor(6) as pool:
            drawing = [pool.submit(draw, person) for person in range(6)]
            assert stop.wait(60)
            server.kill()
            for each in drawing:
                each.result()
    with serving(folder) as server, server.client() as client:
        kept = {each["key"] for each in client.get("/api/strokes").json()}
        assert set(confirmed) <= kept
        assert len(kept) <= len(confirmed) + 6
        assert client.get("/api/facts", params={"tag": "tiger"}).json()["trained"]
        assert server.stop() in (0, 130)
