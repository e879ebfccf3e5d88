"""Maintenance: look at the metadata, plan with reasons, act under the lease, prove that nothing is lost."""
