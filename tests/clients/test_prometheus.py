"""The metrics of a running server, by the parser of Prometheus's own client; the address is the argument."""

import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

with urllib.request.urlopen(sys.argv[1], timeout=60) as response:
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4"), response.headers
    families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}

# What dashboards of redis_exporter show, and what is Tembo's own.
for name in (
    "redis_up redis_uptime_in_seconds redis_connected_clients redis_memory_used_bytes redis_memory_max_bytes "
    "redis_commands_processed redis_keyspace_hits redis_keyspace_misses redis_net_input_bytes redis_net_output_bytes "
    "redis_db_keys redis_db_keys_expiring redis_expired_keys redis_commands redis_commands_duration_seconds "
    "redis_connected_slaves tembo_commits tembo_fences tembo_syncs tembo_log_written_bytes tembo_checkpoints "
    "tembo_pool_free_bytes tembo_versions_retained tembo_stage_duration_seconds"
).split():
    assert name in families, name
stages = families["tembo_stage_duration_seconds"]
assert stages.type == "histogram"
assert {sample.labels["stage"] for sample in stages.samples} >= {"turn", "execute", "sync"}
print("prometheus_client:", len(families), "families: ok")
