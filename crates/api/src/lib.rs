//! The kinds of valkey.io/v1alpha1 as types: specs, statuses, conditions, names and labels. No I/O.
