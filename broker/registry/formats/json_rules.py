"""Each difference between two JSON Schemas, and whether data of the earlier one still fit the later one.

The names and the judgement are Confluent's (`json.diff.SchemaDiff`). `STRICT` is its usual policy, `LENIENT` also
allows what breaks only data with properties that the earlier schema did not name.

An object is open if it may have properties that the schema does not name: that is so unless `additionalProperties`,
`unevaluatedProperties` or `patternProperties` say something. This surprises most people: a property that is added to an
open object may be in earlier data already, with any type. So it is refused, and allowed in a closed object.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple

from broker.registry.formats.parsed import LENIENT, STRICT


class Rule(NamedTuple):
    """`allowed` is the strictest policy that allows the difference; None if none does."""

    allowed: str | None
    text: str


_ALWAYS, _LENIENT = STRICT, LENIENT
_OPEN = "the object is open, so earlier data may have it with any type: close it by additionalProperties=false"
_CLOSED = "the object is closed, so data that have it do not fit any more"
_OPEN_ITEMS = "the array is open, so earlier data may have any value there"
_CLOSED_ITEMS = "the array is closed, so data that have it do not fit any more"


@unique
class Kind(Enum):
    """The rules, by Confluent's names."""

    ID_CHANGED = Rule(_ALWAYS, "$id is another")
    DESCRIPTION_CHANGED = Rule(_ALWAYS, "the description is another")
    TITLE_CHANGED = Rule(_ALWAYS, "the title is another")
    DEFAULT_CHANGED = Rule(_ALWAYS, "the default is another")
    SCHEMA_ADDED = Rule(None, "there is a schema now where anything was allowed")
    SCHEMA_REMOVED = Rule(_ALWAYS, "anything is allowed now where a schema was")
    TYPE_EXTENDED = Rule(_ALWAYS, "the type allows more")
    TYPE_NARROWED = Rule(None, "the type allows less")
    TYPE_CHANGED = Rule(None, "the type is another")
    # Strings
    MAX_LENGTH_ADDED = Rule(None, "maxLength is new")
    MAX_LENGTH_REMOVED = Rule(_ALWAYS, "maxLength is gone")
    MAX_LENGTH_INCREASED = Rule(_ALWAYS, "maxLength is larger")
    MAX_LENGTH_DECREASED = Rule(None, "maxLength is smaller")
    MIN_LENGTH_ADDED = Rule(None, "minLength is new")
    MIN_LENGTH_REMOVED = Rule(_ALWAYS, "minLength is gone")
    MIN_LENGTH_INCREASED = Rule(None, "minLength is larger")
    MIN_LENGTH_DECREASED = Rule(_ALWAYS, "minLength is smaller")
    PATTERN_ADDED = Rule(None, "pattern is new")
    PATTERN_REMOVED = Rule(_ALWAYS, "pattern is gone")
    PATTERN_CHANGED = Rule(None, "pattern is another")
    # Numbers
    MAXIMUM_ADDED = Rule(None, "maximum is new")
    MAXIMUM_REMOVED = Rule(_ALWAYS, "maximum is gone")
    MAXIMUM_INCREASED = Rule(_ALWAYS, "maximum is larger")
    MAXIMUM_DECREASED = Rule(None, "maximum is smaller")
    MINIMUM_ADDED = Rule(None, "minimum is new")
    MINIMUM_REMOVED = Rule(_ALWAYS, "minimum is gone")
    MINIMUM_INCREASED = Rule(None, "minimum is larger")
    MINIMUM_DECREASED = Rule(_ALWAYS, "minimum is smaller")
    EXCLUSIVE_MAXIMUM_ADDED = Rule(None, "exclusiveMaximum is new")
    EXCLUSIVE_MAXIMUM_REMOVED = Rule(_ALWAYS, "exclusiveMaximum is gone")
    EXCLUSIVE_MAXIMUM_INCREASED = Rule(_ALWAYS, "exclusiveMaximum is larger")
    EXCLUSIVE_MAXIMUM_DECREASED = Rule(None, "exclusiveMaximum is smaller")
    EXCLUSIVE_MINIMUM_ADDED = Rule(None, "exclusiveMinimum is new")
    EXCLUSIVE_MINIMUM_REMOVED = Rule(_ALWAYS, "exclusiveMinimum is gone")
    EXCLUSIVE_MINIMUM_INCREASED = Rule(None, "exclusiveMinimum is larger")
    EXCLUSIVE_MINIMUM_DECREASED = Rule(_ALWAYS, "exclusiveMinimum is smaller")
    MULTIPLE_OF_ADDED = Rule(None, "multipleOf is new")
    MULTIPLE_OF_REMOVED = Rule(_ALWAYS, "multipleOf is gone")
    MULTIPLE_OF_EXPANDED = Rule(None, "multipleOf is a multiple of what it was")
    MULTIPLE_OF_REDUCED = Rule(_ALWAYS, "multipleOf is a divisor of what it was")
    MULTIPLE_OF_CHANGED = Rule(None, "multipleOf is another")
    # Objects
    REQUIRED_ATTRIBUTE_ADDED = Rule(None, "the property is required now")
    REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED = Rule(_ALWAYS, "the property is required now, and has a default")
    REQUIRED_ATTRIBUTE_REMOVED = Rule(_ALWAYS, "the property is not required any more")
    DEPENDENCY_ARRAY_ADDED = Rule(None, "the property depends on others now")
    DEPENDENCY_ARRAY_REMOVED = Rule(_ALWAYS, "the property depends on no others any more")
    DEPENDENCY_ARRAY_EXTENDED = Rule(None, "the property depends on more others")
    DEPENDENCY_ARRAY_NARROWED = Rule(_ALWAYS, "the property depends on fewer others")
    DEPENDENCY_ARRAY_CHANGED = Rule(None, "the property depends on others than it did")
    DEPENDENCY_SCHEMA_ADDED = Rule(None, "a schema depends on the property now")
    DEPENDENCY_SCHEMA_REMOVED = Rule(_ALWAYS, "no schema depends on the property any more")
    MAX_PROPERTIES_ADDED = Rule(None, "maxProperties is new")
    MAX_PROPERTIES_REMOVED = Rule(_ALWAYS, "maxProperties is gone")
    MAX_PROPERTIES_INCREASED = Rule(_ALWAYS, "maxProperties is larger")
    MAX_PROPERTIES_DECREASED = Rule(None, "maxProperties is smaller")
    MIN_PROPERTIES_ADDED = Rule(None, "minProperties is new")
    MIN_PROPERTIES_REMOVED = Rule(_ALWAYS, "minProperties is gone")
    MIN_PROPERTIES_INCREASED = Rule(None, "minProperties is larger")
    MIN_PROPERTIES_DECREASED = Rule(_ALWAYS, "minProperties is smaller")
    ADDITIONAL_PROPERTIES_ADDED = Rule(_ALWAYS, "more properties are allowed now")
    ADDITIONAL_PROPERTIES_REMOVED = Rule(_LENIENT, "no more properties are allowed than those that are named")
    ADDITIONAL_PROPERTIES_EXTENDED = Rule(_ALWAYS, "more properties may have any value now")
    ADDITIONAL_PROPERTIES_NARROWED = Rule(_LENIENT, "more properties must fit a schema now")
    UNEVALUATED_PROPERTIES_ADDED = Rule(_ALWAYS, "properties that nothing describes are allowed now")
    UNEVALUATED_PROPERTIES_REMOVED = Rule(_LENIENT, "properties that nothing describes are not allowed any more")
    UNEVALUATED_PROPERTIES_EXTENDED = Rule(_ALWAYS, "properties that nothing describes may have any value now")
    UNEVALUATED_PROPERTIES_NARROWED = Rule(_LENIENT, "properties that nothing describes must fit a schema now")
    PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = Rule(_ALWAYS, "a property of any value is new")
    REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = Rule(None, "a property is new, and required")
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL = Rule(
        _LENIENT, f"a property is new, required and has a default; {_OPEN}"
    )
    OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = Rule(_LENIENT, f"a property is new; {_OPEN}")
    REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = Rule(None, "a property is new in a closed object, and required")
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL = Rule(
        _ALWAYS, "a property is new, required and has a default"
    )
    OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = Rule(_ALWAYS, "a property is new")
    PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL = Rule(_ALWAYS, "a property is gone from an open object")
    PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = Rule(_ALWAYS, "a property without a value is gone")
    PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL = Rule(_LENIENT, f"a property is gone; {_CLOSED}")
    PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        _ALWAYS, "a property is new, and takes all that was allowed there"
    )
    PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        _LENIENT, "a property is new, and does not take all that was allowed there"
    )
    PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        _ALWAYS, "a property is gone, and what is allowed there takes it"
    )
    PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        _LENIENT, "a property is gone, and what is allowed there does not take it"
    )
    # Arrays
    MAX_ITEMS_ADDED = Rule(None, "maxItems is new")
    MAX_ITEMS_REMOVED = Rule(_ALWAYS, "maxItems is gone")
    MAX_ITEMS_INCREASED = Rule(_ALWAYS, "maxItems is larger")
    MAX_ITEMS_DECREASED = Rule(None, "maxItems is smaller")
    MIN_ITEMS_ADDED = Rule(None, "minItems is new")
    MIN_ITEMS_REMOVED = Rule(_ALWAYS, "minItems is gone")
    MIN_ITEMS_INCREASED = Rule(None, "minItems is larger")
    MIN_ITEMS_DECREASED = Rule(_ALWAYS, "minItems is smaller")
    MAX_CONTAINS_ADDED = Rule(None, "maxContains is new")
    MAX_CONTAINS_REMOVED = Rule(_ALWAYS, "maxContains is gone")
    MAX_CONTAINS_INCREASED = Rule(_ALWAYS, "maxContains is larger")
    MAX_CONTAINS_DECREASED = Rule(None, "maxContains is smaller")
    MIN_CONTAINS_ADDED = Rule(None, "minContains is new")
    MIN_CONTAINS_REMOVED = Rule(_ALWAYS, "minContains is gone")
    MIN_CONTAINS_INCREASED = Rule(None, "minContains is larger")
    MIN_CONTAINS_DECREASED = Rule(_ALWAYS, "minContains is smaller")
    UNIQUE_ITEMS_ADDED = Rule(None, "items must be unique now")
    UNIQUE_ITEMS_REMOVED = Rule(_ALWAYS, "items need not be unique any more")
    ADDITIONAL_ITEMS_ADDED = Rule(_ALWAYS, "more items are allowed now")
    ADDITIONAL_ITEMS_REMOVED = Rule(None, "no more items are allowed than those that are named")
    ADDITIONAL_ITEMS_EXTENDED = Rule(_ALWAYS, "more items may have any value now")
    ADDITIONAL_ITEMS_NARROWED = Rule(None, "more items must fit a schema now")
    UNEVALUATED_ITEMS_ADDED = Rule(_ALWAYS, "items that nothing describes are allowed now")
    UNEVALUATED_ITEMS_REMOVED = Rule(None, "items that nothing describes are not allowed any more")
    UNEVALUATED_ITEMS_EXTENDED = Rule(_ALWAYS, "items that nothing describes may have any value now")
    UNEVALUATED_ITEMS_NARROWED = Rule(None, "items that nothing describes must fit a schema now")
    ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = Rule(_ALWAYS, "an item of any value is new")
    ITEM_ADDED_TO_OPEN_CONTENT_MODEL = Rule(None, f"an item is new; {_OPEN_ITEMS}")
    ITEM_ADDED_TO_CLOSED_CONTENT_MODEL = Rule(_ALWAYS, "an item is new")
    ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL = Rule(_ALWAYS, "an item is gone from an open array")
    ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = Rule(_ALWAYS, "an item without a value is gone")
    ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL = Rule(None, f"an item is gone; {_CLOSED_ITEMS}")
    ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        _ALWAYS, "an item is new, and takes all that was allowed there"
    )
    ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        None, "an item is new, and does not take all that was allowed there"
    )
    ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        _ALWAYS, "an item is gone, and what is allowed there takes it"
    )
    ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = Rule(
        None, "an item is gone, and what is allowed there does not take it"
    )
    # Values and alternatives
    ENUM_ARRAY_EXTENDED = Rule(_ALWAYS, "enum has more values")
    ENUM_ARRAY_NARROWED = Rule(None, "enum has fewer values")
    ENUM_ARRAY_CHANGED = Rule(None, "enum or const has other values")
    COMBINED_TYPE_EXTENDED = Rule(_ALWAYS, "the way in which schemas are combined allows more")
    COMBINED_TYPE_CHANGED = Rule(None, "the way in which schemas are combined is another")
    COMBINED_TYPE_SUBSCHEMAS_CHANGED = Rule(None, "the schemas that are combined are others")
    PRODUCT_TYPE_EXTENDED = Rule(None, "allOf has more schemas")
    PRODUCT_TYPE_NARROWED = Rule(_ALWAYS, "allOf has fewer schemas")
    SUM_TYPE_EXTENDED = Rule(_ALWAYS, "there are more alternatives")
    SUM_TYPE_NARROWED = Rule(None, "there are fewer alternatives")
    NOT_TYPE_EXTENDED = Rule(None, "not forbids more")
    NOT_TYPE_NARROWED = Rule(_ALWAYS, "not forbids less")

    def is_allowed(self, policy: str) -> bool:
        """Whether the policy allows it."""
        return self.value.allowed in (STRICT, policy)


class Difference(NamedTuple):
    """`path` is where it is, from the root of the schema."""

    kind: Kind
    path: str

    @property
    def text(self) -> str:
        return f'{{errorType:"{self.kind.name}", description:"at \'#{self.path}\': {self.kind.value.text}"}}'
