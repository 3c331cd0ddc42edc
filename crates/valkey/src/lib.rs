//! Speaking to and reasoning about Valkey servers: typed client, INFO and CLUSTER parsers, configuration.
