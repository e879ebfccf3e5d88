"""Contracts: what a dataset is, checked and frozen."""

from lakehouse.contracts.fields import Column
from lakehouse.contracts.load import contract, contracts, load
from lakehouse.contracts.model import AnyContract, Bronze, Contract, Gold, Silver
from lakehouse.contracts.problems import Problem

__all__ = ["AnyContract", "Bronze", "Column", "Contract", "Gold", "Problem", "Silver", "contract", "contracts", "load"]
