"""Asks a database which rows a name stands for: a table, part of one, or a view of one.

Only the catalogue is read. A view belongs to its table where it selects rows and columns of that
table alone, each row by itself; any other view is refused, for a promise on its rows is none on
those of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from marginalsyn.errors import DataError

# Views of views, at most.
DEPTH = 32
# What a view's query may be made of: a value or a condition of one row. A function that is not
# listed may read other rows, make several rows of one, or be somebody's own.
_PARTS = (
    "Select From Where Table TableAlias Identifier Column Alias Star Literal Boolean Null Paren "
    "And Or Not EQ NEQ GT GTE LT LTE Is NullSafeEQ NullSafeNEQ In Between Like ILike RegexpLike "
    "RegexpILike Any Array Tuple Case If Coalesce Nullif Greatest Least Cast DataType "
    "DataTypeParam Add Sub Mul Div IntDiv Mod Neg DPipe Concat Lower Upper Trim Substring Left "
    "Right Length Round Floor Ceil Abs Extract Var TimestampTrunc CurrentDate "
    "CurrentTimestamp TryCast"
)
# Where a row lies, which other rows decide.
_PLACES = {"rowid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}
# The same for a plan of Spark, whose functions are known by their classes.
_STEPS = {"Project", "Filter", "SubqueryAlias", "View", "Repartition"}
_VALUES = (
    "AttributeReference Alias Literal Cast And Or Not EqualTo EqualNullSafe LessThan "
    "LessThanOrEqual GreaterThan GreaterThanOrEqual In InSet IsNull IsNotNull Like StartsWith "
    "EndsWith Contains RLike CaseWhen If Coalesce NullIf Greatest Least Add Subtract Multiply "
    "Divide IntegralDivide Remainder UnaryMinus Concat Lower Upper StringTrim Substring Length "
    "Round Floor Ceil Abs Year Month DayOfMonth CurrentDate CurrentTimestamp"
)


class NotOneTableError(DataError):
    """A view whose rows are not rows of one table."""


@dataclass(frozen=True)
class Place:
    """A table or view as its database knows it: its name and folder as Ibis opens them.

    ``key`` is what the database calls it among its own, ``sql`` the query of a view.
    """

    name: str
    folder: tuple[str, ...] | str | None
    key: Any = None
    sql: str = ""


@dataclass(frozen=True)
class Rows:
    """Which rows a table has, whatever it is called.

    ``keys`` are texts that no other table has, ``within`` those of the tables that it is a part of,
    ``server`` the port, the database and the host's names that a connection has.
    """

    tables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    server: tuple[str, ...] = ()


def find_place(backend: Any, table: str) -> Place:
    """The table or view that a name means to those who ask."""
    folder, _, short = table.rpartition(".")
    if backend.name == "postgres":
        found = backend.con.execute(_NAMED, {"folder": folder, "name": short}).fetchone()
        if found is not None:
            return Place(found[2], (found[1],), found[0])
    if backend.name == "duckdb":
        found = backend.con.execute(_IN_FILE, [folder or "main", short]).fetchone()
        if found is not None:
            return Place(found[1], ("source", found[0]), found[2], found[3] or "")
        return Place(short, ("source", folder or "main"))
    return Place(short, folder or None)


def find_rows(backend: Any, table: str) -> Rows | None:
    """Which rows a name stands for; None where the database has none of this name.

    Raises:
        NotOneTableError: a view that is not a selection from one table.
    """
    if backend.name == "pyspark":
        return _rows_in_spark(backend._session, table)
    place = find_place(backend, table)
    if place.key is None:
        return None
    return (_rows_in_postgres if backend.name == "postgres" else _rows_in_duckdb)(backend, place)


def not_one_table(table: str, sources: Sequence[str]) -> NotOneTableError:
    """A view that no table's ledger can count for, with the tables to take."""
    named = f" (here {', '.join(sorted(set(sources)))})" if sources else ""
    return NotOneTableError(
        f"table ({table}) must be a table, or a view that selects plain rows and columns of one, "
        "for its ledger to be known: it is another kind of view, or its rows lie elsewhere, so "
        f"what is asked of it would pass by the ledgers of its tables{named}. Take a table, or "
        "keep these rows as a table of their own (CREATE TABLE ... AS SELECT), which counts as a "
        "copy; or name a ledger with --ledger"
    )


def selects_from(sql: str, dialect: str) -> tuple[str, str] | None:
    """The schema, if it is named, and the table of a query that gives rows of one, each by itself.

    Example:
        >>> selects_from("SELECT upper(town) AS town FROM s.people WHERE age > 17", "duckdb")
        ('s', 'people')
        >>> selects_from("SELECT town, count(*) FROM people GROUP BY town", "duckdb")
    """
    import sqlglot
    from sqlglot import exp

    try:
        (query,) = (tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None)
    except (sqlglot.ParseError, sqlglot.TokenError, ValueError):
        return None
    if isinstance(query, exp.Create):
        query = query.expression
    if not isinstance(query, exp.Select) or not _given(query) <= {"expressions", "from_", "where"}:
        return None
    parts, known = list(query.walk()), set(_PARTS.split())
    source = query.args.get("from_")
    table = source.this if source is not None else None
    if (
        any(type(part).__name__ not in known for part in parts)
        or sum(isinstance(part, exp.Select | exp.Table) for part in parts) != 2
        or any(isinstance(part, exp.Star) and _given(part) for part in parts)
        or any(column.name.casefold() in _PLACES for column in query.find_all(exp.Column))
        or not isinstance(table, exp.Table)
        or not _given(table) <= {"this", "db", "alias", "only"}
        or not isinstance(table.this, exp.Identifier)
    ):
        return None
    return table.db, table.name


def _given(part: Any) -> set[str]:
    return {name for name, value in part.args.items() if value}


# PostgreSQL

# By the asker's search path where no schema is named.
_NAMED = """
SELECT c.oid, n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(name)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
AND CASE WHEN %(folder)s = '' THEN pg_catalog.pg_table_is_visible(c.oid)
ELSE %(folder)s IN (n.nspname, pg_catalog.current_database() || '.' || n.nspname) END
"""
_KIND = """
SELECT c.relkind::text, n.nspname || '.' || c.relname, CASE WHEN c.relkind IN ('v', 'm')
THEN pg_get_viewdef(c.oid) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
# What the query of a view takes: tables, and functions or operators that are not the system's own.
_TAKEN = """
SELECT DISTINCT d.refclassid::regclass::text, d.refobjid,
CASE WHEN d.refclassid = 'pg_class'::regclass
THEN (SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n
ON n.oid = c.relnamespace WHERE c.oid = d.refobjid) END
FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
WHERE r.ev_class = %(view)s AND d.refobjid <> %(view)s
AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass)
"""
# The tables that a table is a part of, itself, and its parts.
_FAMILY = """
WITH RECURSIVE up(oid) AS (SELECT %(table)s::oid
UNION SELECT i.inhparent FROM pg_inherits i JOIN up ON i.inhrelid = up.oid),
down(oid) AS (SELECT %(table)s::oid
UNION SELECT i.inhrelid FROM pg_inherits i JOIN down ON i.inhparent = down.oid)
SELECT c.oid, n.nspname || '.' || c.relname, c.relkind::text, c.oid IN (SELECT oid FROM down)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid IN (SELECT oid FROM up UNION SELECT oid FROM down)
"""


def _rows_in_postgres(backend: Any, place: Place) -> Rows:
    clusters, info = _clusters(backend.con), backend.con.info
    with backend.con.transaction(), backend.con.cursor() as cursor:
        # So that only the system's own functions are written without their schema.
        cursor.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog', true)")
        (base,) = cursor.execute(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        table, first = place.key, f"{place.folder[0]}.{place.name}"  # type: ignore[index]
        for _ in range(DEPTH):
            kind, name, sql = cursor.execute(_KIND, [table]).fetchone()
            if kind not in ("v", "m"):
                break
            taken = cursor.execute(_TAKEN, {"view": table}).fetchall()
            tables = [row for row in taken if row[0] == "pg_class"]
            if len(taken) != 1 or len(tables) != 1 or selects_from(sql, "postgres") is None:
                raise not_one_table(first, [row[2] for row in tables])
            table = tables[0][1]
        family = cursor.execute(_FAMILY, {"table": table}).fetchall()
    for _, name, kind, below in family:
        # The rows of a foreign table lie elsewhere, where they have another name.
        if kind not in ("r", "p") and below:
            raise not_one_table(first, [name])
    return Rows(
        tables=tuple(name for _, name, _, below in family if below),
        keys=tuple(
            f"{one} {base} {oid}" for oid, _, _, below in family if below for one in clusters
        ),
        within=tuple(
            f"{one} {base} {oid}" for oid, _, _, below in family if not below for one in clusters
        ),
        server=(str(info.port), info.dbname, info.host, info.hostaddr),
    )


def _clusters(connection: Any) -> list[str]:
    """What only one server has: the number that it was given when it was made.

    The moment when it was started stands next to it, for users who may not ask for the number. For
    them the address that the server itself sees is what lasts.
    """
    import psycopg

    place, start = connection.execute(
        "SELECT coalesce(host(inet_server_addr()), '') || ':' || current_setting('port'), "
        "extract(epoch FROM pg_postmaster_start_time())"
    ).fetchone()
    try:
        asked = "SELECT system_identifier::text FROM pg_catalog.pg_control_system()"
        (place,) = connection.execute(asked).fetchone()
    except psycopg.Error:
        pass
    return [f"postgres {place}", f"postgres {start}"]


# DuckDB

_IN_FILE = """
SELECT schema_name, table_name, 'table', NULL FROM duckdb_tables()
WHERE database_name = 'source' AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)
UNION ALL SELECT schema_name, view_name, 'view', sql FROM duckdb_views()
WHERE database_name = 'source' AND lower(schema_name) = lower($1) AND lower(view_name) = lower($2)
"""
# A macro may stand under the name of a function of DuckDB's own.
_MACROS = "SELECT count(*) FROM duckdb_functions() WHERE database_name = 'source'"


def _rows_in_duckdb(backend: Any, place: Place) -> Rows:
    first, tables = place, list[str]()
    for _ in range(DEPTH):
        if not place.sql:
            return Rows(tables=(f"{place.folder[1]}.{place.name}",))  # type: ignore[index]
        found = selects_from(place.sql, "duckdb")
        if found is None or backend.con.execute(_MACROS).fetchone() != (0,):
            break
        # A view finds tables of its own schema first.
        folders = [found[0]] if found[0] else [place.folder[1], "main"]  # type: ignore[index]
        places = [find_place(backend, f"{folder}.{found[1]}") for folder in folders]
        place = next((one for one in places if one.key), Place(found[1], None, sql="no table"))
        tables = [found[1]]
    raise not_one_table(first.name, tables)


# Spark

_DETAILS = "# Detailed Table Information"
# Tables whose rows lie in files of their own; those of others, such as jdbc, lie elsewhere.
_FORMATS = "parquet orc csv json text avro xml delta iceberg hudi hive"


def _rows_in_spark(session: Any, table: str) -> Rows | None:
    quoted = ".".join(f"`{part}`" for part in table.replace("`", "").split("."))
    try:
        rows = [row[:2] for row in session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()]
    except Exception:
        return None
    heads = [number for number, row in enumerate(rows) if row[0] == _DETAILS]
    facts = dict(rows[heads[-1] :]) if heads else {}
    if heads and "VIEW" not in facts.get("Type", ""):
        if facts.get("Provider", "").lower() not in _FORMATS.split():
            raise not_one_table(table, [])
        named = [facts[part] for part in ("Catalog", "Database", "Table") if part in facts]
        return _spark_table(facts.get("Name") or ".".join(named), facts.get("Location"))
    try:
        plan = session.table(quoted)._jdf.queryExecution().analyzed()
    except AttributeError:
        # Spark Connect does not show what a view is made of.
        raise not_one_table(table, []) from None
    found = _leaf_rows(session, plan)
    if found is None:
        raise not_one_table(table, [])
    return found if found.tables or found.files else replace(found, tables=(table,))


def _spark_table(name: str, place: str | None) -> Rows:
    key = f"spark {place or name}"
    return Rows((name.removeprefix("spark_catalog."),), (key,), files=(place,) if place else ())


def _leaf_rows(session: Any, plan: Any) -> Rows | None:
    """The rows that a plan takes from one table or from files, each by itself."""
    while (step := plan.getClass().getSimpleName()) in _STEPS:
        if step in ("Project", "Filter"):
            for value in _each(plan.expressions()):
                if any(not _of_one_row(part) for part in _tree(value)):
                    return None
        (plan,) = _each(plan.children())
    if step in ("LogicalRDD", "LocalRelation", "ExternalRDD"):
        # Rows of the session's own, in no file: the same object in every view of them.
        rows = plan.data() if step == "LocalRelation" else plan.rdd()
        number = session._jvm.System.identityHashCode(rows)
        return Rows(keys=(f"spark {session.sparkContext.applicationId} {number}",))
    if step == "HiveTableRelation":
        return _catalogued(plan.tableMeta())
    if step != "LogicalRelation":
        return None
    if plan.relation().getClass().getSimpleName() != "HadoopFsRelation":
        return None
    if plan.catalogTable().isDefined():
        return _catalogued(plan.catalogTable().get())
    files = tuple(path.toString() for path in _each(plan.relation().location().rootPaths()))
    return Rows(keys=tuple(f"spark {path}" for path in files), files=files)


def _catalogued(table: Any) -> Rows:
    place, name = table.storage().locationUri(), table.identifier().unquotedString()
    if place.isEmpty():
        return _spark_table(name, None)
    # As Spark writes it for people: not encoded.
    return _spark_table(name, f"{place.get().getScheme()}:{place.get().getSchemeSpecificPart()}")


def _of_one_row(part: Any) -> bool:
    kind = part.getClass().getSimpleName()
    place = kind == "AttributeReference" and part.name() == "_metadata"
    return kind in _VALUES.split() and not place


def _tree(value: Any) -> Iterator[Any]:
    yield value
    for part in _each(value.children()):
        yield from _tree(part)


def _each(found: Any) -> Iterator[Any]:
    """What is in a sequence of Scala's."""
    rest = found.iterator()
    while rest.hasNext():
        yield rest.next()
