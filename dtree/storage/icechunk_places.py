"""Icechunk repositories: versioned zarr stores, read at the tip of their main branch, where icechunk is installed."""

from typing import Any

from dtree.core.recent import Recent
from dtree.storage.places import Place
from dtree.storage.remote import RemotePath

_DEEPEST = 4  # groups above an array
_stores = Recent(4)


def repository_of(place: Place) -> tuple[Place, str] | None:
    """The repository that a place is in or is, and the rest of its name; None when it is in none."""
    inside: list[str] = []
    for _ in range(_DEEPEST):
        if (place / "refs" / "branch.main" / "ref.json").is_file():
            return place, "/".join(reversed(inside))
        inside.append(place.name)
        if not place.name or place.parent == place:
            break
        place = place.parent
    return None


def zarr_in_repository(root: Place, inside: str) -> Any:
    """What zarr opens; the repository is opened once by every process."""
    from zarr.storage import StorePath

    try:
        import icechunk
    except ImportError:
        raise ValueError(f"{root} is an Icechunk repository, which needs icechunk: pip install icechunk") from None
    version = (root / "refs" / "branch.main" / "ref.json").read_bytes()

    def opened() -> Any:
        try:
            return icechunk.Repository.open(_storage(root)).readonly_session("main").store
        except icechunk.IcechunkError as problem:
            reason = " ".join(str(problem).split())[:120]
            raise ValueError(f"{root} cannot be opened as an Icechunk repository: {reason}") from None

    return StorePath(_stores.get((root, version), opened), inside)


def _storage(root: Place) -> Any:
    import icechunk

    if not isinstance(root, RemotePath):
        return icechunk.local_filesystem_storage(str(root))
    if not root.root.startswith("s3"):
        raise ValueError(f"{root}: Icechunk repositories are read from disks and from s3:// only")
    options = {name.removeprefix("aws_"): value for name, value in root.objects.options.items()}
    endpoint = options.get("endpoint") or options.get("endpoint_url") or options.get("endpoint_url_s3")
    known = ("region", "access_key_id", "secret_access_key", "session_token")
    given: dict[str, Any] = {name: options[name] for name in known if name in options}
    if endpoint:
        given["endpoint_url"] = endpoint
    if "access_key_id" not in given:
        given["from_env"] = True
    plain = (endpoint or "").startswith("http://")
    bucket = root.root.partition("://")[2]
    return icechunk.s3_storage(
        bucket=bucket, prefix=root.key, allow_http=plain, force_path_style=endpoint is not None, **given
    )
