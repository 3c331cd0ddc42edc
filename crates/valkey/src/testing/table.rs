//! Tables of clusters that nobody has to start.

use crate::cluster::ClusterNodes;

/// Shards of so many replicas each: the primary of the first is `p0`, its replicas are `p0r0` and so on.
#[must_use]
pub fn table(shards: usize, replicas: usize) -> ClusterNodes {
    let primary =
        |shard| format!("p{shard} 10.0.{shard}.1:6379@16379 master - 0 0 {shard} connected {shard}\n");
    let replica = |shard, replica| {
        format!(
            "p{shard}r{replica} 10.0.{shard}.{}:6379@16379 slave p{shard} 0 0 {shard} connected\n",
            replica + 2
        )
    };
    let lines: String = (0..shards)
        .flat_map(|shard| {
            std::iter::once(primary(shard)).chain((0..replicas).map(move |number| replica(shard, number)))
        })
        .collect();
    ClusterNodes::parse(&lines)
}
