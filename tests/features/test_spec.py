from __future__ import annotations

import pytest

from maps import X
from mergesvm.errors import ParameterError
from mergesvm.features import Chain, Components, Fourier, HiddenLayer, Identity, Nystroem, Patches
from mergesvm.features.spec import as_map


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fourier", Fourier(1000)),
        ("patches", Patches(64)),
        ("hidden:20,activation=tanh,spread=2", HiddenLayer(20, activation="tanh", spread=2.0)),
        ("nystroem:5,kernel=polynomial,degree=2", Nystroem(5, kernel="polynomial", degree=2)),
        ("patches:4,image=6x8,padding=0", Patches(4, image=(6, 8), padding=0)),
        ("fourier:7,orthogonal=false,gamma=none", Fourier(7, orthogonal=False)),
        ("patches:4+fourier:9", Chain([Patches(4), Fourier(9)])),
        ("pca", Components(0.9999)),
        ("pca:50", Components(50)),
        ("pca:0.99,whiten=true+fourier:9", Chain([Components(0.99, whiten=True), Fourier(9)])),
    ],
)
def test_a_map_can_be_given_by_name(text, expected):
    assert as_map(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "fourrier:4", "fourier:", "fourier:x", "fourier:-1", "fourier:4,depth=3", "fourier:4,gamma"),
        *("fourier:4.5", "hidden:4,activation=cube", "hidden:5,n_features=7", "fourier:4,seed=1,seed=2", "patches:4+"),
        *("nystroem:3,degree=0", "fourier:4,scaling=some", "fourier:4,precision=float16", "wrapped:3"),
        *("pca:0", "pca:1.0", "pca:1.5", "pca:-0.5", "pca:all", "pca:nan"),
        "patches:4,image=" + "9" * 5000 + "x3",
    ],
    ids=lambda text: text[:30],
)
def test_unknown_names_and_parameters_raise_an_error_that_lists_the_valid_ones(text):
    with pytest.raises(ParameterError):
        as_map(text)


def test_a_name_is_completed_by_the_given_size_and_seed():
    assert as_map("fourier", 70, 3) == Fourier(70, seed=3)
    assert as_map("fourier:50", 70, 3) == Fourier(50, seed=3)
    assert as_map("fourier:50,seed=1", 70, 3) == Fourier(50, seed=1)
    assert as_map("patches+hidden", 70) == Chain([Patches(70), HiddenLayer(70)])
    assert as_map(" hidden : 9 , activation = tanh ".replace(" :", ":")) == HiddenLayer(9, activation="tanh")
    assert as_map("pca") == Components(0.9999)
    assert as_map("pca:0.99,whiten=true") == Components(0.99, whiten=True)
    assert as_map("pca:50") == as_map("pca", 50) == Components(50)
    assert as_map(None) == as_map("identity") == as_map(Identity()) == Identity()
    frozen = Fourier(5).freeze(X)
    assert as_map(frozen) is frozen
    for wrong in (3, ["fourier"], b"fourier", Fourier):
        with pytest.raises(ParameterError, match="must be a map, the name of one, or None"):
            as_map(wrong)
    with pytest.raises(ParameterError, match=r"no feature map 'cosines'\. Available: correlogram, fourier, hidden"):
        as_map("cosines:9")
    with pytest.raises(ParameterError, match=r"fourier has no parameter 'depth=3'\. It has: n_features, gamma"):
        as_map("fourier:9,depth=3")
