"""Influence of pieces, against models that are solved again from the rows without them."""

import sys

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.analysis.expected import expected
from mergesvm.analysis.pieces import remainder_solver
from mergesvm.analysis.pieces.influence import influence
from mergesvm.analysis.pieces.leave_one_out import NUMBERS
from mergesvm.errors import IndefiniteError, KnowledgeError, ParameterError, SignatureError, SolverWarning
from mergesvm.multiclass.decomposition import one_vs_one, one_vs_rest
from reference import blobs, hyperplane_by_qr, side_weights


def random_pieces(seed=0, n=240, d=4, classes=3, pieces=6, offset=0.0):
    """Rows, their labels, and the piece that each belongs to."""
    X, y = blobs(seed, n, d, classes, offset)
    piece = np.random.default_rng(seed + 1).integers(0, pieces, n)
    return X * np.array([1.0, 10.0, 0.1, 1.0][:d]), y, piece


def learned(X, y, piece, weights=None, **options):
    return [
        ms.learn(X[piece == p], y[piece == p], None if weights is None else weights[piece == p], **options)
        for p in range(piece.max() + 1)
    ]


def close(found, wanted, tolerance=1e-9):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert np.abs(found - wanted).max() <= tolerance * max(np.abs(wanted).max(), 1e-300)


OPTIONS = [
    {},
    {"C": 50.0, "standardize": True},
    {"class_weight": "balanced"},
    {"class_weight": "inverse", "C": 100.0, "standardize": True},
    {"class_weight": {0: 3.0, 1: 0.5}, "penalize_intercept": False},
    {"multiclass": "ovo"},
    {"multiclass": "ovo", "class_weight": "complement", "penalize_intercept": False},
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", OPTIONS)
def test_coefficients_equal_solving_without_the_piece(options, classes):
    X, y, piece = random_pieces(classes=classes)
    found = influence(learned(X, y, piece), keep_coefs=True, **options)
    for index in range(len(found.names)):
        rest = piece != index
        model = ms.solve(ms.learn(X[rest], y[rest]), **options)
        close(found.coefs_without[index], model.coef_)
        intercepts = found.offsets_without[index] - found.coefs_without[index] @ found.anchor
        close(intercepts, model.intercept_)


@pytest.mark.parametrize("scheme", [None, "balanced"])
def test_coefficients_equal_least_squares_on_the_other_rows(scheme):
    X, y, piece = random_pieces()
    found = influence(learned(X, y, piece), C=2.0, class_weight=scheme, keep_coefs=True)
    for index in range(len(found.names)):
        rows, labels = X[piece != index], y[piece != index]
        for label in range(3):
            own = labels == label
            positive, negative = side_weights(scheme, own.sum(), (~own).sum())
            w, _ = hyperplane_by_qr(rows, np.where(own, 1.0, -1.0), np.where(own, positive, negative), 2.0)
            close(found.coefs_without[index, label], w)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("with_held_out", [False, True])
def test_losses_equal_those_on_the_rows(multiclass, with_held_out, offset):
    X, y, piece = random_pieces(pieces=5)
    X = X + offset
    weights = np.random.default_rng(3).uniform(0.5, 2.0, len(y))
    pieces = learned(X, y, piece, weights)
    held = piece == 4
    held_out = pieces.pop() if with_held_out else None
    known = ~held if with_held_out else np.ones(len(y), dtype=bool)
    found = influence(pieces, multiclass=multiclass, held_out=held_out)
    tolerance = 1e-9 if offset == 0 else 1e-6

    def loss(model, rows):
        problems = (one_vs_one if multiclass == "ovo" else one_vs_rest)(ms.learn(X, y))
        signs = problems.signs[:, y[rows]].T
        taking = weights[rows, None] * np.abs(signs)
        errors = (taking * (1 - signs * model.scores(X[rows])) ** 2).sum(axis=0)
        return (errors / taking.sum(axis=0)).mean()

    def solved(rows):
        return ms.solve(ms.learn(X[rows], y[rows], weights[rows]), multiclass=multiclass)

    whole = solved(known)
    for index in range(len(pieces)):
        own, rest = known & (piece == index), known & (piece != index)
        without, others = solved(rest), held if with_held_out else rest
        close(found.loss_on_piece[index], loss(whole, own), tolerance)
        close(found.loss_on_piece_without[index], loss(without, own), tolerance)
        close(found.loss_on_others[index], loss(whole, others), tolerance)
        close(found.loss_on_others_without[index], loss(without, others), tolerance)


def test_changes_are_in_standard_deviations_and_at_the_mean_row():
    X, y, piece = random_pieces()
    found = influence(learned(X, y, piece))
    whole = ms.solve(ms.learn(X, y))
    for index in range(len(found.names)):
        without = ms.solve(ms.learn(X[piece != index], y[piece != index]))
        scaled = (whole.coef_ - without.coef_) * X.std(axis=0)
        close(found.change[index], np.linalg.norm(scaled) / np.linalg.norm(whole.coef_ * X.std(axis=0)))
        moved = whole.scores(X.mean(axis=0)[None]) - without.scores(X.mean(axis=0)[None])
        close(found.offset_change[index], np.sqrt((moved**2).mean()))


@pytest.mark.parametrize(("classes", "multiclass", "tolerance"), [(2, "ovr", 1e-9), (4, "ovr", 0.01), (4, "ovo", 0.03)])
def test_accuracies_equal_those_of_expected(classes, multiclass, tolerance):
    X, y, piece = random_pieces(classes=classes, n=600)
    pieces = learned(X, y, piece)
    found = influence(pieces, multiclass=multiclass, C=10.0, by_class=True)
    total = ms.merge(pieces)
    whole = ms.solve(total, C=10.0, multiclass=multiclass)
    for index, own in enumerate(pieces):
        rest = total - own
        without = ms.solve(rest, C=10.0, multiclass=multiclass)
        assert abs(found.accuracy_on_piece[index] - expected(whole, own).accuracy) < tolerance
        assert abs(found.accuracy_on_piece_without[index] - expected(without, own).accuracy) < tolerance
        assert abs(found.accuracy_on_others[index] - expected(whole, rest).accuracy) < tolerance
        assert abs(found.accuracy_on_others_without[index] - expected(without, rest).accuracy) < tolerance


def test_pooled_knowledge_gives_the_same_coefficients_and_losses():
    X, y, piece = random_pieces()
    one = influence(learned(X, y, piece), keep_coefs=True)
    other = influence(learned(X, y, piece, per_class=False), keep_coefs=True)
    close(other.coefs_without, one.coefs_without)
    for name in ("change", "loss_on_piece", "loss_on_piece_without", "loss_on_others", "loss_on_others_without"):
        close(getattr(other, name), getattr(one, name))
    for name in ("accuracy_on_piece", "accuracy_on_others", "accuracy_on_others_without"):
        close(getattr(other, name), getattr(one, name))


@pytest.mark.parametrize("with_held_out", [False, True])
def test_by_class_and_chunks_and_memory_limits_change_nothing_else(with_held_out, monkeypatch):
    X, y, piece = random_pieces()
    pieces = learned(X, y, piece)
    held_out = pieces.pop() if with_held_out else None
    one, by_class = (influence(pieces, by_class=each, held_out=held_out) for each in (False, True))
    monkeypatch.setattr(sys.modules[influence.__module__], "MAX_POOLED_BYTES", 0)
    monkeypatch.setattr(remainder_solver, "CHUNK_BYTES", 0)
    slow = influence(pieces, held_out=held_out)
    for name in NUMBERS:
        close(getattr(slow, name), getattr(one, name))
        if "accuracy" not in name:
            close(getattr(by_class, name), getattr(one, name))
    assert np.abs(by_class.accuracy_on_others - one.accuracy_on_others).max() < 0.05


def test_pieces_without_a_class_or_without_rows():
    X, y, piece = random_pieces()
    piece[(piece == 2) & (y == 1)] = 3
    pieces = learned(X, y, piece)
    empty = ms.Knowledge.zero(pieces[0].signature)
    found = influence([*pieces, empty], keep_coefs=True)
    close(found.coefs_without[2], ms.solve(ms.learn(X[piece != 2], y[piece != 2])).coef_)
    close(found.loss_on_others[-1], found.loss_on_others_without[-1])
    assert found.change[-1] < 1e-12
    assert np.isnan(found.loss_on_piece[-1])
    assert found.notes == ("",) * 6 + ("no rows",)


def test_a_piece_with_all_rows_of_a_class_cannot_be_left_out():
    X, y, piece = random_pieces()
    piece[y == 2] = 0
    found = influence(learned(X, y, piece), keep_coefs=True)
    assert found.notes[0] == "all rows of class 2 are in this piece: no model without it"
    assert np.isnan(found.change[0])
    assert np.isnan(found.coefs_without[0]).all()
    assert np.isnan([found.loss_on_piece_without[0], found.accuracy_on_others_without[0]]).all()
    whole = ms.solve(ms.learn(X, y))
    signs = np.where(y[:, None] == np.arange(3), 1, -1)
    losses = ((1 - signs * whole.scores(X)) ** 2).mean(axis=1)
    close(found.loss_on_piece[0], losses[piece == 0].mean())
    close(found.loss_on_others[0], losses[piece != 0].mean())
    assert np.isfinite(found.change[1:]).all()
    assert found.table()[-1]["piece"] == "piece 0"


def test_features_that_vary_only_in_one_piece_are_dropped_without_it():
    X, y, piece = random_pieces()
    X[:, 3] = np.where(piece == 1, X[:, 3], 7.0)
    for options in ({"C": 1e6}, {"C": 1.0, "standardize": True}):
        found = influence(learned(X, y, piece), keep_coefs=True, **options)
        rest = piece != 1
        close(found.coefs_without[1], ms.solve(ms.learn(X[rest], y[rest]), **options).coef_, 1e-8)


def test_singular_systems_are_solved_with_a_warning():
    X, y, piece = random_pieces()
    X[:, 3] = X[:, 0] + X[:, 1]
    with pytest.warns(SolverWarning, match="singular"):
        found = influence(learned(X, y, piece), C=1e16, keep_coefs=True)
    with pytest.warns(SolverWarning, match="singular"):
        model = ms.solve(ms.learn(X[piece != 3], y[piece != 3]), C=1e16)
    close(found.coefs_without[3], model.coef_, 1e-7)


def test_a_mislabelled_piece_has_the_largest_loss_reduction():
    X, y, piece = random_pieces(n=900, pieces=10)
    wrong = np.where(piece == 7, (y + 1) % 3, y)
    pieces = {f"day {p}": k for p, k in enumerate(learned(X, wrong, piece))}
    assert influence(pieces).table()[0]["piece"] == "day 7"
    held = piece == 9
    held_out = ms.learn(X[held], y[held])
    pieces.pop("day 9")
    found = influence(pieces, held_out=held_out)
    assert found.held_out
    assert found.table()[0]["piece"] == "day 7"
    assert (np.delete(found.relative_loss_reduction, 7) < found.relative_loss_reduction[7]).all()
    assert found.accuracy_on_piece_without[7] < 0.5 < np.delete(found.accuracy_on_piece_without, 7).min()


def test_pieces_are_named_by_key_source_or_position(tmp_path):
    X, y, piece = random_pieces(pieces=3)
    pieces = learned(X, y, piece)
    assert influence(pieces).names == ("piece 0", "piece 1", "piece 2")
    assert influence(dict(zip("abc", pieces, strict=True))).names == ("a", "b", "c")
    np.savez(tmp_path / "monday.npz", X=X[piece == 0], y=y[piece == 0])
    monday = ms.learn(ms.scan(tmp_path / "monday.npz", label="y"))
    named = influence([monday, *pieces[1:]]).names
    assert named[0].endswith("monday.npz")
    assert named[1:] == ("piece 1", "piece 2")


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("width", [1, 4, 19])
@pytest.mark.parametrize("options", [{}, {"C": 50.0, "standardize": True}, {"penalize_intercept": False}])
def test_pooled_gram_matrices_give_the_same_as_those_of_each_class(options, width, classes, monkeypatch):
    generator = np.random.default_rng(width)
    X, y = generator.normal(size=(600, width)), generator.integers(0, classes, 600)
    X[:, 0] += y
    piece = generator.integers(0, 7, 600)
    piece[(piece == 2) & (y == 1)] = 3
    pieces = learned(X, y, piece)
    pieces.append(ms.Knowledge.zero(pieces[0].signature))
    pooled = [influence(pieces, keep_coefs=True, n_jobs=jobs, **options) for jobs in (1, 2)]
    monkeypatch.setattr(sys.modules[influence.__module__], "MAX_POOLED_BYTES", 0)
    plain = influence(pieces, keep_coefs=True, n_jobs=1, **options)
    for found in pooled:
        close(found.coefs_without, plain.coefs_without, 1e-11)
        for name in NUMBERS:
            assert np.array_equal(np.isnan(getattr(found, name)), np.isnan(getattr(plain, name)))
            close(np.nan_to_num(getattr(found, name)), np.nan_to_num(getattr(plain, name)))
        without = ms.solve(ms.merge(pieces) - pieces[4], **options)
        close(found.coefs_without[4], without.coef_, 1e-10)


def test_threads_change_nothing():
    X, y, piece = random_pieces()
    one, two = (influence(learned(X, y, piece), n_jobs=jobs, keep_coefs=True) for jobs in (1, 2))
    close(one.coefs_without, two.coefs_without, 1e-13)
    assert one.names == two.names


def test_invalid_pieces_raise_errors():
    X, y, piece = random_pieces()
    pieces = learned(X, y, piece)
    for few in ([], pieces[:1], {}, pieces[0]):
        with pytest.raises(ParameterError, match="at least two pieces"):
            influence(few)
    with pytest.raises(TypeError, match="knowledge_"):
        influence([pieces[0], ms.MergeSVC()])
    with pytest.raises(KnowledgeError, match="all rows are of class 0"):
        influence([piece.only([0]) for piece in pieces])
    with pytest.raises(KnowledgeError, match="no rows"):
        influence([ms.Knowledge.zero(pieces[0].signature)] * 2)
    with pytest.raises(SignatureError):
        influence([pieces[0], ms.learn(X[:, :2], y)])
    with pytest.raises(ParameterError, match="C must be"):
        influence(pieces, C=-1)
    unsound = ms.subtract(ms.learn(X[:9], y[:9] * 0), ms.learn(100 * X[9:11], y[9:11] * 0), force=True)
    with pytest.raises(IndefiniteError):
        influence([unsound, ms.learn(X[20:30], y[20:30] * 0 + 1)])
    with pytest.raises(KnowledgeError, match="class 9"):
        influence(pieces, held_out=ms.learn(X, np.full(len(y), 9)))
    with pytest.raises(TypeError, match="held_out"):
        influence(pieces, held_out=X)
