"""Tables are created as maintenance wants them, or it would have to set them right."""

from __future__ import annotations

import pytest

from lakehouse.contracts import contracts
from lakehouse.contracts.model import Bronze, Contract, Gold, Silver
from lakehouse.table_properties import wanted
from spark_jobs import tables


def definitions(contract: Contract) -> dict[str, tables.Definition]:
    if isinstance(contract, Silver):
        return tables.silver_tables(contract)
    if isinstance(contract, Bronze):
        return {contract.dataset: tables.bronze(contract)}
    assert isinstance(contract, Gold)
    return {contract.dataset: tables.gold(contract)}


@pytest.mark.parametrize("contract", contracts(), ids=lambda one: one.dataset)
def test_a_table_and_its_companions_are_created_with_the_properties_that_their_contract_wants(contract):
    larger = contract.model_copy(update={"maintenance": contract.maintenance.model_copy(update={"target_file_mb": 7})})
    for name, made in definitions(larger).items():
        assert wanted(larger, name).items() <= made.properties.items(), name
        assert made.properties["write.target-file-size-bytes"] == str(7 << 20), name
