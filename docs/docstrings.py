"""How the docstrings, which are written for readers of the code, become pages."""

import re


def setup(app):
    app.connect("missing-reference", by_last_name)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("autodoc-process-signature", hide_constructor)
    return {"parallel_read_safe": True}


def by_last_name(app, env, node, contents):
    """Link :func:`bald` to the one documented object of this name, in whatever namespace it is public."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.domains.python_domain, node["reftarget"]
    for end in (f".{target}", f".{target.rpartition('.')[2]}"):
        found = [name for name, entry in domain.objects.items() if name.endswith(end) and not entry.aliased]
        if len(found) == 1:
            role = domain.role_for_objtype(domain.objects[found[0]].objtype)
            return domain.resolve_xref(env, node["refdoc"], app.builder, role, found[0], node, contents)
    return None


def skip_field(app, what, name, member, skip, options):
    """Leave out the fields of a NamedTuple, which its own docstring describes."""
    return True if str(getattr(member, "__doc__", "")).startswith("Alias for field number") else None


def hide_constructor(app, what, name, member, options, signature, returned):
    """Show no arguments of a class that functions return and nobody calls."""
    if what == "class" and not re.search(r"^\s*Parameters\n\s*-+$", member.__doc__ or "", flags=re.MULTILINE):
        return "", None
    return None
