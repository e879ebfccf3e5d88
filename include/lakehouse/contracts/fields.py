"""The small types that contracts are made of."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from croniter import croniter
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from lakehouse.contracts.bounds import Value, read_bound
from lakehouse.contracts.paths import steps

PRESETS = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TYPE = re.compile(r"(string|boolean|int|bigint|double|date|timestamp|binary|decimal\((\d+), ?(\d+)\))")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DATASET = re.compile(r"(bronze|silver|gold)\.[a-z][a-z0-9_]*")
_DURATION = re.compile(r"(\d+)([smhd])")
_PARTITION = re.compile(r"(?:(year|month|day|hour)\((\w+)\)|(bucket|truncate)\((\d+), ?(\w+)\)|(\w+))")


class Strict(BaseModel):
    """A model that refuses what it does not know and never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def read_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"'{text}' is no duration; write a number and s, m, h or d, such as 90m or 3d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _duration(value: Any) -> Any:
    return read_duration(value) if isinstance(value, str) else value


def write_duration(value: timedelta) -> str:
    """The shortest form that reads back as the same duration."""
    seconds = int(value.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"'{value}' is no regular expression: {error}") from None
    if "(?P" in value or "(?(" in value:
        raise ValueError(f"'{value}' has groups that only Python knows; write them as (…) or (?:…)")
    return value


def _path(value: str) -> str:
    steps(value)
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"'{value}' is no name; use small letters, digits and _, beginning with a letter")
    return value


def _dataset(value: str) -> str:
    if not _DATASET.fullmatch(value):
        raise ValueError(f"'{value}' is no dataset; write bronze.<name>, silver.<name> or gold.<name>")
    return value


def _type(value: str) -> str:
    match = _TYPE.fullmatch(value)
    if not match:
        known = "string, boolean, int, bigint, double, decimal(p,s), date, timestamp, binary"
        raise ValueError(f"'{value}' is no type; use one of {known}")
    if match[2] and not (int(match[3]) <= int(match[2]) <= 38):
        raise ValueError(f"'{value}' has no room; decimal(p,s) needs s <= p <= 38")
    return value.replace(" ", "")


def _cron(value: str) -> str:
    expression = PRESETS.get(value, value)
    if not croniter.is_valid(expression) or len(expression.split()) != 5:
        raise ValueError(f"'{value}' is no schedule; use {', '.join(PRESETS)} or five cron fields")
    return expression


def _timezone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError(f"'{value}' is no time zone; use a name such as UTC or Europe/Berlin")
    ZoneInfo(value)
    return value


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


def editor(title: str, pattern: re.Pattern[str] | None = None) -> WithJsonSchema:
    """What an editor is told of a text, by way of the JSON Schema; the validators say it better."""
    shape = {"pattern": f"^{pattern.pattern}$"} if pattern else {}
    return WithJsonSchema({"type": "string", "title": title, **shape})


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(write_duration, return_type=str),
    editor("duration", _DURATION),
]
Name = Annotated[str, AfterValidator(_name), editor("name", _NAME)]
DatasetName = Annotated[str, AfterValidator(_dataset), editor("dataset", _DATASET)]
ColumnType = Annotated[str, AfterValidator(_type), editor("column type", _TYPE)]
Cron = Annotated[str, AfterValidator(_cron), editor("schedule")]
TimeZone = Annotated[str, AfterValidator(_timezone), editor("time zone")]
Texts = Annotated[tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str])]
FieldPath = Annotated[str, AfterValidator(_path), editor("path")]
FieldPaths = Annotated[
    tuple[FieldPath, ...], BeforeValidator(as_list, json_schema_input_type=FieldPath | list[FieldPath])
]
DatasetNames = Annotated[
    tuple[DatasetName, ...], BeforeValidator(as_list, json_schema_input_type=DatasetName | list[DatasetName])
]
Bound = Annotated[
    int | float | str, BeforeValidator(lambda bound: bound.isoformat() if isinstance(bound, date) else bound)
]
Pattern = Annotated[str, AfterValidator(_pattern), editor("regular expression")]
Cleaner = Literal["trim", "squeeze", "empty_to_null", "lower", "upper", "digits", "currency", "currency_eu"]
Cleaners = Annotated[tuple[Cleaner, ...], BeforeValidator(as_list, json_schema_input_type=Cleaner | list[Cleaner])]


class Column(Strict):
    """One column: its type, where its value comes from, and the rules that a value must keep."""

    type: ColumnType = Field(
        description="string, boolean, int, bigint, double, decimal(p,s), date, timestamp or binary."
    )
    description: str = Field("", description="Becomes the column's comment.")
    required: bool = Field(False, description="A record without it is rejected.")
    from_: FieldPaths = Field(
        (),
        alias="from",
        description='Path in the record, a.b.c or items[0].sku; "a.b".c where a name holds a dot. '
        "Of several, the first with a value.",
    )
    clean: Cleaners = Field(
        (),
        description="Normalisers of texts, in this order, before the cast: squeeze makes each run of white space one "
        "blank, empty_to_null takes blank texts for missing, currency reads $1,234.50 and currency_eu 1.234,50 €.",
    )
    formats: Texts = Field((), description="Accepted forms of a date or time; Spark's patterns, epoch_s or epoch_ms.")
    expr: str = Field(
        "", description="SQL expression over columns with a path and the columns above it, instead of one."
    )
    accepted: tuple[str, ...] = Field((), description="The only values allowed.")
    between: tuple[Bound, ...] = Field(
        (), description="Lowest and highest value allowed; times without a zone are of UTC."
    )
    matches: Pattern = Field(
        "",
        description="Regular expression that the whole text must match. Where it repeats a group, as (a|b)* does but "
        "(a|b)*+ does not, texts of more than 200 characters do not.",
    )
    check: str = Field("", description="SQL condition that must not be false.")

    @model_validator(mode="after")
    def _parts_go_together(self) -> Column:
        if self.formats and self.type not in ("date", "timestamp"):
            raise ValueError(f"formats are for dates and times, not for {self.type}; remove formats")
        if self.expr and (self.from_ or self.clean or self.formats):
            raise ValueError("expr stands alone; remove from, clean and formats, or expr")
        if self.between and len(self.between) != 2:
            raise ValueError("between has two values, the lowest and the highest allowed")
        if self.between and self.type in ("string", "boolean", "binary"):
            raise ValueError(f"between is for numbers, dates and times, not for {self.type}; remove between")
        return self

    @property
    def bounds(self) -> tuple[Value, ...]:
        """`between` as values of the column's type."""
        return tuple(read_bound(bound, self.type) for bound in self.between)


class Ready(Strict):
    """When a landing folder is complete. At most one way is given; without any it is the marker `_SUCCESS`."""

    marker: str | None = Field(None, description="The file that is written last.")
    manifest: str | None = Field(
        None,
        description="The file that lists the others: one name a line, or JSON, a list or {files: […]}, of names or of "
        "objects with name, size and md5; exactly these are taken, once all are there.",
    )
    quiet: Duration | None = Field(
        None,
        description="No object has come or changed for this long, by the store's clock; there is a file, and the "
        "interval has ended. Longer than the longest upload.",
    )

    @model_validator(mode="before")
    @classmethod
    def _marker_unless_said(cls, given: Any) -> Any:
        return given or {"marker": "_SUCCESS"}

    @model_validator(mode="after")
    def _one_way(self) -> Ready:
        if len([way for way in (self.marker, self.manifest, self.quiet) if way]) != 1:
            raise ValueError("give one of marker, manifest and quiet")
        return self

    @property
    def signal(self) -> str:
        """The file that is no data but says that the data is there; empty where there is none."""
        return self.marker or self.manifest or ""


class Csv(Strict):
    """How a CSV file is written."""

    separator: str = Field(",", min_length=1, max_length=1, description="Between fields.")
    quote: str = Field('"', min_length=1, max_length=1, description="Around fields; doubled inside them.")
    header: tuple[str, ...] = Field((), description="Names of the fields; left out: the first line has them.")


class Source(Strict):
    """Where a bronze dataset's records come from."""

    kind: Literal["files"] = Field(description="files: objects in the landing bucket.")
    path: str = Field(
        description="Landing prefix; {interval:%Y-%m-%d} stands for the interval's start. "
        "Files and folders whose names begin with _ or . are no data."
    )
    format: Literal["json_lines", "csv", "parquet", "avro", "text"] = Field(
        "json_lines", description="How a file is cut into records; .gz and .zst are unpacked."
    )
    csv: Csv = Field(Csv(), description="Where the format is csv.")
    ready: Ready = Field(Ready(marker="_SUCCESS"), description="When the folder is complete.")
    recognise: Literal["dataset", "interval"] = Field(
        "dataset",
        description="Bytes that came before under another name are not taken again: within the dataset, "
        "or only within the interval (full snapshots may repeat).",
    )
    archive_after: Duration | None = Field(
        None,
        description="Files go to _archive/ in the landing bucket this long after they were taken; left out: they "
        "stay. No other dataset may read them, and the bucket must keep versions.",
    )
    delete_after: Duration | None = Field(
        None,
        description="Instead: files are deleted this long after they were taken, on the same terms; those that could "
        "not be read as a whole stay.",
    )

    @model_validator(mode="after")
    def _path_names_the_interval(self) -> Source:
        if "{interval:" not in self.path or not self.path.endswith("/"):
            raise ValueError("path must name its interval and end in /, such as orders/{interval:%Y-%m-%d}/")
        return self

    @property
    def kept(self) -> timedelta | None:
        """How long files stay after they were taken; None: for ever."""
        return self.delete_after if self.archive_after is None else self.archive_after


def partition_column(field: str) -> str | None:
    """The column that a partition field such as day(ordered_at) is made from."""
    match = _PARTITION.fullmatch(field)
    return (match[2] or match[5] or match[6]) if match else None
