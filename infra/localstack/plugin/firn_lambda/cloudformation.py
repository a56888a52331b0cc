"""Four errors of LocalStack 4.14's CloudFormation that template.yaml meets, fixed. AWS has none of them."""

import json
from typing import Any

from localstack.services.cloudformation.engine.v2.change_set_model import (
    ChangeSetModel,
    ChangeType,
    NodeParameter,
    is_nothing,
)
from localstack.services.cloudformation.engine.v2.change_set_model_preproc import ChangeSetModelPreproc
from localstack.services.cloudformation.engine.v2.change_set_model_transform import ChangeSetModelTransform
from localstack.services.cloudformation.v2.entities import ChangeSet


def fix() -> None:
    """All of them."""
    _references_into_sam()
    _conditions_named_like_a_parameter()
    _a_template_without_changes()
    _parameters_that_are_empty()


def _references_into_sam() -> None:
    """It works every resource out before it runs the SAM transform, to find `Fn::Transform` in them, and so refuses
    what refers to a resource that only the transform makes (`!Ref Api.Stage`). A template without `Fn::Transform` needs
    no such look."""
    looking = ChangeSetModelTransform._execute_local_transforms

    def only_where_asked(self: Any) -> None:
        templates = json.dumps([self._before_template or {}, self._after_template or {}], default=str)
        if "Fn::Transform" in templates:
            looking(self)

    ChangeSetModelTransform._execute_local_transforms = only_where_asked


def _conditions_named_like_a_parameter() -> None:
    """It takes `!Ref X` for the condition X first, and without end where that condition is about the parameter X. A Ref
    never names a condition."""
    resolving = ChangeSetModel._resolve_intrinsic_function_ref

    def parameters_first(self: Any, arguments: Any) -> Any:
        name = getattr(arguments, "value", None)
        if arguments.change_type == ChangeType.UNCHANGED and isinstance(name, str):
            parameter = self._retrieve_parameter_if_exists(parameter_name=name)
            if isinstance(parameter, NodeParameter):
                return parameter.change_type
        return resolving(self, arguments)

    ChangeSetModel._resolve_intrinsic_function_ref = parameters_first


def _a_template_without_changes() -> None:
    """It takes every template with a transform for a changed one, so that a second deploy updates the stack. What
    counts is what the transform made."""

    def has_changes(self: Any) -> bool:
        made = self.update_model.node_template
        parts = (made.mappings, made.parameters, made.conditions, made.resources, made.outputs)
        return any(part.change_type != ChangeType.UNCHANGED for part in parts)

    ChangeSet.has_changes = has_changes


def _parameters_that_are_empty() -> None:
    """It takes an empty value for none where the parameter has no default, and leaves the `!Ref` of it out."""
    visiting = ChangeSetModelPreproc.visit_node_parameter

    def empty_is_a_value(self: Any, node_parameter: Any) -> Any:
        delta, given = visiting(self, node_parameter), self.visit(node_parameter.dynamic_value)
        if is_nothing(delta.before) and given.before == "":
            delta.before = ""
        if is_nothing(delta.after) and given.after == "":
            delta.after = ""
        return delta

    ChangeSetModelPreproc.visit_node_parameter = empty_is_a_value
