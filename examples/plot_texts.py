"""
Texts: words that may stand for each other, and kernels of strings
===================================================================

Documents are sparse rows of word counts, and estimators leave them sparse.  Six labels do not contain most words.  That
"superb" may stand for "good" is known: the derivative of f as one word takes the place of the other is
zero.  Objects without features, such as strings, need only a function of two of them that is a kernel.
"""

# %%
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import rkhs
from rkhs.invariances import WordSubstitution
from rkhs.kernels import ObjectKernel

GOOD, BAD = ["good", "great", "superb", "moving"], ["bad", "poor", "awful", "boring"]
THINGS = ["film", "plot", "music", "story", "ending", "camera", "cast", "first", "last", "scene", "song", "script"]
rng = np.random.default_rng(0)


def review(opinions):
    """Return a sentence with two of the opinions."""
    (a, b), (x, y) = rng.choice(opinions, 2), rng.choice(THINGS, 2, replace=False)
    return f"the {x} was {a} and the {y} was {b}"


truth = np.arange(200) % 2
texts = [review(([BAD[:1], GOOD[:1]] if i < 6 else [BAD, GOOD])[liked]) for i, liked in enumerate(truth)]
y = np.where(np.arange(200) < 6, truth, -1)  # six labels, with the words "good" and "bad" only
print(texts[0], texts[1], texts[7], sep="\n")

# %%
# Pairs of words that may stand for each other are a prior of any classifier.  With a linear kernel such words get the
# same weight; polynomial and Gaussian kernels take the same prior.

vectorizer = CountVectorizer()
X = vectorizer.fit_transform(texts)  # sparse
words = vectorizer.get_feature_names_out()
pairs = [(words_of[0], word) for words_of in (GOOD, BAD) for word in words_of[1:]]
plain = rkhs.InvariantClassifier("linear", invariance=None, C=10.0).fit(X, y)
substituted = rkhs.InvariantClassifier("linear", invariance=WordSubstitution(pairs, words), nu=1e3, C=10.0).fit(X, y)
for name, model in (("labels only", plain), ("and substitutions", substituted)):
    print(f"{name}: {100 * np.mean(model.predict(X[6:]) != truth[6:]):.0f} % errors")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
opinions = GOOD + BAD
one_word = vectorizer.transform(opinions)
empty = vectorizer.transform([""])
for shift, (name, model) in enumerate((("labels only", plain), ("and substitutions", substituted))):
    weights = model.decision_function(one_word) - model.decision_function(empty)
    left.barh(np.arange(8) + 0.4 * shift, weights, height=0.4, label=name)
left.set(yticks=np.arange(8) + 0.2, yticklabels=opinions, title="change of f by a word")
left.invert_yaxis()
left.legend()

# %%
# A kernel of two strings: the number of common substrings of three letters, normalized.  The points are the indices of
# the strings.  It reads misspelled words, which have no column in a table of known words.


def parts(text):
    """Return the counts of all substrings of three letters."""
    return Counter(text[i : i + 3] for i in range(len(text) - 2))


def spectrum(a, b):
    """Return the cosine of the counts of all substrings of three letters (Leslie, Eskin and Noble 2002)."""
    p, q = parts(a), parts(b)
    product = sum(p[part] * q[part] for part in p)
    return product / (sum(v * v for v in p.values()) * sum(v * v for v in q.values())) ** 0.5


strings = ["superb", "suberb", "superbly", "boring", "borring", "borringly", "moving", "movingly"]
kernel = ObjectKernel(spectrum, strings)
model = rkhs.InvariantClassifier(kernel, invariance=None, C=10.0).fit(kernel.points[[0, 3, 6]], [1, 0, 1])
print(dict(zip(strings, model.predict(kernel.points).tolist(), strict=True)))

image = right.imshow(kernel(kernel.points), cmap="Blues", vmin=0)
right.set(xticks=range(8), yticks=range(8), yticklabels=strings, title="common substrings of three letters")
right.set_xticklabels(strings, rotation=45, ha="right")
figure.colorbar(image, ax=right)
figure.tight_layout()
plt.show()
