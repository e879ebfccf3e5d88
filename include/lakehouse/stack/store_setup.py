"""Buckets, identities and their policies, in any MinIO whose root user is known; harmless to repeat."""

from __future__ import annotations

import hashlib
import json
from dataclasses import astuple
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakehouse.errors import LakehouseError
from lakehouse.identities import identity
from lakehouse.roles import Role, policy
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from minio import Minio, MinioAdmin


def set_up(settings: Settings) -> None:
    """Have the two buckets, and for each role that has a key of its own a user with what it may do."""
    from minio.error import MinioAdminException, MinioException
    from urllib3.exceptions import HTTPError

    try:
        _buckets(settings)
        admin = _admin(settings)
        for role in Role:
            if role is Role.ADMIN or identity(settings, role).access_key != identity(settings, Role.ADMIN).access_key:
                _identity(admin, settings, role)
    except (MinioException, MinioAdminException) as error:
        told = str(error).splitlines()[0]
        raise LakehouseError(f"The object store at {settings.s3_endpoint} refuses its root user: {told}") from None
    except HTTPError:
        raise LakehouseError(f"The object store at {settings.s3_endpoint} does not answer: is it up?") from None


def digest(settings: Settings) -> str:
    """Changes with anything that `set_up` makes."""
    buckets = settings.landing_bucket, settings.warehouse_bucket
    made: list[Any] = [["versions", settings.landing_bucket]]
    made += [[str(role), policy(role, *buckets), astuple(identity(settings, role))[:2]] for role in Role]
    return hashlib.sha256(json.dumps(made).encode()).hexdigest()


def answers(settings: Settings) -> bool:
    """Whether both buckets are there, and admin may enter them."""
    from minio.error import S3Error

    own = identity(settings, Role.ADMIN)
    store = client(settings, own.access_key, own.secret_key)
    try:
        return all(store.bucket_exists(bucket) for bucket in (settings.landing_bucket, settings.warehouse_bucket))
    except S3Error:
        return False


def _buckets(settings: Settings) -> None:
    """Have the two buckets; landing keeps versions, also where it was there without."""
    from minio.commonconfig import ENABLED
    from minio.versioningconfig import VersioningConfig

    root = client(settings, settings.minio_root_user, settings.minio_root_password.get_secret_value())
    for bucket in (settings.landing_bucket, settings.warehouse_bucket):
        if not root.bucket_exists(bucket):
            root.make_bucket(bucket)
    # A file that is removed is one version: what its source writes at that moment stays.
    root.set_bucket_versioning(settings.landing_bucket, VersioningConfig(ENABLED))


def _identity(admin: MinioAdmin, settings: Settings, role: Role) -> None:
    """The role's user; one that is there gets today's secret, so that the one before is worth nothing."""
    own, name = identity(settings, role), f"lakehouse-{role}"
    admin.policy_add(name, policy=policy(role, settings.landing_bucket, settings.warehouse_bucket))
    admin.user_add(own.access_key, own.secret_key)
    admin.policy_set(name, user=own.access_key)


def _admin(settings: Settings) -> MinioAdmin:
    from minio import MinioAdmin
    from minio.credentials.providers import StaticProvider

    root = StaticProvider(settings.minio_root_user, settings.minio_root_password.get_secret_value())
    return MinioAdmin(**_place(settings), credentials=root, region=settings.s3_region)


def client(settings: Settings, access_key: str, secret_key: str) -> Minio:
    """MinIO's own client, with this key."""
    from minio import Minio

    return Minio(**_place(settings), access_key=access_key, secret_key=secret_key, region=settings.s3_region)


def _place(settings: Settings) -> dict[str, Any]:
    parts = urlsplit(settings.s3_endpoint)
    return {"endpoint": parts.netloc, "secure": parts.scheme == "https"}
