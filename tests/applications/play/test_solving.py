"""What is drawn is what the library says: scenes against their own code, quick against exact, examples, speed."""

import base64
import json
import warnings

import numpy as np
import pytest

from rkhs._command.play.scene import answer

NOTHING = {"gradient": False, "graph": False, "monotone": "", "repeats": False}
PLAIN = {"C": 10.0, "nu": 1.0, "scale": 0.4, "shift": 0.5, **NOTHING}
GIVEN = {"gradient": True}, {"graph": True}, {"monotone": "left"}, {"repeats": True}, {"graph": True, "monotone": "up"}
PRIORS = [{}, *GIVEN]


def points(count=40, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.9, 0.9, (count, 2)).round(4)
    y = np.where(rng.random(count) < 0.6, np.digitize(X[:, 0], [0.0, 0.5][: classes - 1]), -1)
    return [[*map(float, x), int(c)] for x, c in zip(X, y, strict=True)]


def drawn(found):
    values = np.frombuffer(base64.b64decode(found["values"]), "<f4")
    return values.reshape(found["raster"] ** 2, -1)


def run(scene):
    """Return the names that the code of a scene defines."""
    space = {}
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # that there is no screen
        exec(answer("code", scene)["code"], space)
    return space


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_code_gives_what_is_drawn(prior, classes, figures):
    scene = {"points": points(classes=classes), **PLAIN, **prior}
    space, found = run(scene), answer("solve", scene)
    ticks = np.linspace(-1, 1, found["raster"])
    board = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)  # row by row from the bottom
    values = np.asarray(space["f"](board)).reshape(len(board), -1)
    assert np.abs(values - drawn(found)).max() < 1e-4 * np.abs(values).max()
    assert found["certificate"]["gap"] == pytest.approx(space["solution"].relative_gap, rel=1e-3, abs=1e-12)
    assert found["certificate"]["certified"]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_quick_is_near_exact(prior):
    scene = {"points": points(300), **PLAIN, **prior}
    quick, exact = answer("solve", scene | {"quick": True}), answer("solve", scene)
    assert quick["certificate"]["span"] is not None
    assert (exact["certificate"]["span"] is None) == (exact["certificate"]["functionals"] <= 1200)
    same = np.mean((drawn(quick) > 0) == (drawn(exact) > 0))
    assert same > 0.97


@pytest.mark.parametrize("direction", ["right", "left", "up", "down"])
def test_f_grows_where_it_is_said_to(direction, figures):
    scene = {"points": points(), **PLAIN, "nu": 1000.0, "monotone": direction}
    f, X = run(scene)["f"], np.array(scene["points"])[:, :2]
    step = {"right": [1e-3, 0], "left": [-1e-3, 0], "up": [0, 1e-3], "down": [0, -1e-3]}[direction]
    assert np.min(f(X + np.array(step)) - f(X)) > -1e-4


@pytest.mark.parametrize("name", ["moons", "rings", "line"])
def test_examples_are_scenes_and_their_priors_shows(name):
    given = answer("example", {"name": name})
    assert json.loads(json.dumps(given)) == answer("example", {"name": name})
    found = answer("solve", given | {"compare": True})
    assert found["certificate"]["certified"]
    assert np.abs(drawn(found) - drawn(found["plain"])).max() > 0.1


POINTS = (None, [[0, 0]], [[0, 0, "x"]], [[0, 0, 3]], [[0, 0, 0.5]], [[1e9, 0, 0]], [[True, 0, 0]], [[0, 0, 0]] * 1001)
SETTINGS = {
    "C": (0, "10", 1e300),
    "nu": (-1, None),
    "scale": (0, True),
    "monotone": ("sideways", None, ["right"]),
    "graph": (1,),
    "gradient": ("yes",),
    "repeats": ({},),
    "points": (*POINTS, [[float("nan"), 0, 0]]),
}
BAD = [None, [], {}, *({name: value} for name, values in SETTINGS.items() for value in values)]


@pytest.mark.every
@pytest.mark.parametrize("given", BAD, ids=lambda given: str(given)[:40])
def test_odd_scenes_are_refused(given):
    whole = {"points": points(), **PLAIN, **given} if isinstance(given, dict) and given else given
    for request in ("solve", "code"):
        with pytest.raises(ValueError, match=r"\.$"):
            answer(request, whole)


@pytest.mark.parametrize("own", [[], [[0, 0, 1]], [[0, 0, -1], [1, 1, -1]], [[0, 0, 0], [1, 0, 0]]])
def test_one_class_is_not_enough(own):
    for request in ("solve", "code"):
        with pytest.raises(ValueError, match="two classes"):
            answer(request, {"points": own, **PLAIN, "quick": True})


@pytest.mark.parametrize(
    "own", [[[0, 0, 0], [0, 0, 1]], [[0, 0, 0], [1, 1, 1]], [[0.5, 0.5, -1]] * 30 + [[0, 0, 0], [0, 1, 1]]]
)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_few_points_and_points_on_each_other(own, prior):
    found = answer("solve", {"points": own, **PLAIN, **prior, "quick": True})
    assert np.isfinite(drawn(found)).all()
