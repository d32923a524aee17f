//! A plugin that misbehaves in every way.
