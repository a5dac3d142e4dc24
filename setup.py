"""Which packages there are: those of tpcalc, and the proofs, which stand beside it and are installed within."""

from setuptools import find_packages, setup

setup(
    packages=sorted({*find_packages(include=("tpcalc", "tpcalc.*")),
                     *(f"tpcalc.{name}" for name in find_packages(include=("proofs", "proofs.*")))}),
    package_dir={"tpcalc.proofs": "proofs"},
)
