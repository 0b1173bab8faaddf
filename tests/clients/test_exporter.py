"""What redis_exporter reads of a running server, beside the server's own metrics; both addresses are the arguments, and the
server's port comes from TEMBO_PORT."""

import os
import sys
import time
import urllib.request

import redis
from prometheus_client.parser import text_string_to_metric_families


def samples(address):
    with urllib.request.urlopen(address, timeout=60) as response:
        families = text_string_to_metric_families(response.read().decode())
        return {name(sample): sample.value for family in families for sample in family.samples}


def name(sample):
    """Samples of databases have different labels."""
    return sample.name + sample.labels.get("db", "")


def wait_for(address):
    for _ in range(600):
        try:
            return samples(address)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise TimeoutError(address)


client = redis.Redis(port=int(os.environ["TEMBO_PORT"]))
client.set("counted", 1)
client.set("expiring", 1, ex=1000)
try:
    client.execute_command("NOSUCH")
except redis.ResponseError:
    pass
exporter = wait_for(sys.argv[1])
own = samples(sys.argv[2])
assert exporter["redis_up"] == 1, exporter
assert exporter["redis_exporter_last_scrape_error"] == 0, exporter

# What its dashboards show.
for wanted in """
    redis_uptime_in_seconds redis_start_time_seconds redis_instance_info redis_process_id
    redis_connected_clients redis_blocked_clients redis_config_maxclients redis_connections_received_total
    redis_rejected_connections_total redis_commands_processed_total redis_commands_total
    redis_commands_duration_seconds_total redis_commands_failed_calls_total redis_commands_rejected_calls_total
    redis_errors_total redis_keyspace_hits_total redis_keyspace_misses_total redis_net_input_bytes_total
    redis_net_output_bytes_total redis_memory_used_bytes redis_memory_used_rss_bytes redis_memory_max_bytes
    redis_db_keysdb0 redis_db_keys_expiringdb0 redis_expired_keys_total redis_evicted_keys_total
    redis_pubsub_channels redis_pubsub_patterns redis_slowlog_length redis_slowlog_last_id
    redis_last_slow_execution_duration_seconds redis_rdb_changes_since_last_save
    redis_rdb_last_save_timestamp_seconds redis_rdb_last_bgsave_status redis_loading_dump_file
    redis_connected_slaves redis_master_repl_offset redis_latest_fork_seconds
    redis_cpu_sys_seconds_total redis_cpu_user_seconds_total redis_tracking_clients
""".split():
    assert wanted in exporter, wanted

# What both give has one name and one meaning: what does not change meanwhile is equal.
named = {known for known in own if known.startswith("redis_")}
# Later releases of redis_exporter have the name.
later = {"redis_client_output_buffer_limit_disconnections_total"}
shared, unknown = named & set(exporter), named - set(exporter) - later
assert not unknown, f"no names of redis_exporter: {sorted(unknown)}"
for same in """
    redis_db_keysdb0 redis_db_keys_expiringdb0 redis_config_maxclients redis_memory_max_bytes redis_process_id
""".split():
    assert own[same] == exporter[same], (same, own[same], exporter[same])
print("redis_exporter:", len(exporter), "metrics,", len(shared), "of them the server's own too: ok")
