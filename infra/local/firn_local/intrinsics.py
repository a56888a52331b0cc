"""CloudFormation's intrinsic functions, enough of them to run a SAM template here: YAML tags and what they resolve to.

Source: CloudFormation User Guide, "Intrinsic function reference". What this does not know raises TemplateError, so that
nothing runs with a value that was guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml


class TemplateError(Exception):
    """The template says something that the local stack can't run. The text names it."""


# PyYAML's own parser takes ten times as long, and may be all that there is.
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """YAML with CloudFormation's short tags: `!Ref X` is {"Ref": X}, `!Sub X` is {"Fn::Sub": X}, and so on."""


def _short_tag(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any = None
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = str(value).split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_tag)

_ABSENT = object()


def load(text: str) -> dict[str, Any]:
    """A template's text as data, short tags in their long form. Raises TemplateError if it is not a mapping."""
    data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with tags that build dicts
    if not isinstance(data, dict):
        raise TemplateError("the template is empty")
    return data


@dataclass
class Scope:
    """What names mean: parameters and pseudo parameters, what Ref gives for a resource, and its attributes."""

    values: Mapping[str, Any]
    """Parameters, pseudo parameters and the Ref of each resource."""
    attributes: Mapping[tuple[str, str], str]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)

    def condition(self, name: str) -> bool:
        """Whether the condition of that name holds."""
        if name not in self.conditions:
            raise TemplateError(f"the condition {name} is not declared under Conditions")
        return bool(self.resolve(self.conditions[name]))

    def resolve(self, value: Any) -> Any:
        """The value with every intrinsic worked out; entries that are AWS::NoValue are left out."""
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not _ABSENT]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (name, argument), *_ = value.items()
            if name == "Ref" or name == "Condition" or name.startswith("Fn::"):
                return self._intrinsic(name, argument)
        resolved = {key: self.resolve(item) for key, item in value.items()}
        return {key: item for key, item in resolved.items() if item is not _ABSENT}

    def _intrinsic(self, name: str, argument: Any) -> Any:
        match name:
            case "Ref":
                return self._ref(argument)
            case "Condition":
                return self.condition(argument)
            case "Fn::GetAtt":
                return self._attribute(*(argument if isinstance(argument, list) else argument.split(".", 1)))
            case "Fn::Sub":
                return self._sub(argument)
            case "Fn::If":
                chosen, yes, no = argument
                return self.resolve(yes if self.condition(chosen) else no)
            case "Fn::Equals":
                left, right = self.resolve(argument)
                return str(left) == str(right)
            case "Fn::Not":
                return not self.resolve(argument)[0]
            case "Fn::And":
                return all(self.resolve(argument))
            case "Fn::Or":
                return any(self.resolve(argument))
            case "Fn::Contains":  # in Rules alone
                items, wanted = self.resolve(argument)
                return wanted in items
            case "Fn::Join":
                separator, parts = argument
                return separator.join(map(str, self.resolve(parts)))
            case "Fn::Select":
                index, items = self.resolve(argument)
                return items[int(index)]
            case "Fn::Split":
                separator, text = self.resolve(argument)
                return text.split(separator)
            case "Fn::FindInMap":
                top, first, second = self.resolve(argument)
                return self.mappings[top][first][second]
        raise TemplateError(f"the local stack does not know {name}")

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _ABSENT
        if name not in self.values:
            raise TemplateError(f"!Ref {name}: there is no parameter and no resource of that name")
        return self.values[name]

    def _attribute(self, resource: str, attribute: str) -> str:
        if (resource, attribute) not in self.attributes:
            raise TemplateError(f"!GetAtt {resource}.{attribute}: the local stack has no value for it")
        return self.attributes[resource, attribute]

    def _sub(self, argument: Any) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else (argument[0], self.resolve(argument[1]))

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if name.startswith("!"):  # ${!Literal} is written out as ${Literal}
                return f"${{{name[1:]}}}"
            if name in local:
                return str(local[name])
            return str(self._attribute(*name.split(".", 1)) if "." in name else self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", value, text)
