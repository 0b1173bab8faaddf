// A job queue of BullMQ against a running server, in parts that a script runs one after another and kills.
//
//     node queue.js PORT add COUNT      adds jobs, numbered from 0
//     node queue.js PORT work           works on jobs until it is killed; each leaves its number in a set
//     node queue.js PORT finish COUNT   works on what is left; ends when all are done, fails if one is missing
//     node queue.js PORT basics         ioredis: pipelines, scripts, streams, pub/sub
const { Queue, Worker } = require("bullmq");
const Redis = require("ioredis");

const [port, part, count] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4])];
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const PATIENCE_MS = 120_000;

function fail(what) {
  console.error(what);
  process.exit(1);
}

async function add() {
  const queue = new Queue("jobs", { connection });
  const jobs = Array.from({ length: count }, (_, number) => ({
    name: "job",
    data: { number },
    opts: { jobId: `job-${number}`, attempts: 10, delay: number % 10 === 0 ? 50 : 0, priority: number % 3 },
  }));
  await queue.addBulk(jobs);
  await queue.close();
}

function worker(redis) {
  const options = { connection, concurrency: 4, lockDuration: 2000, stalledInterval: 1000, maxStalledCount: 100 };
  const one = new Worker("jobs", async (job) => {
    await new Promise((resolve) => setTimeout(resolve, 3));
    await redis.sadd("done", job.data.number);
  }, options);
  // While the server is gone, clients try again.
  one.on("error", () => {});
  return one;
}

async function finish() {
  const redis = new Redis(connection);
  redis.on("error", () => {});
  const one = worker(redis);
  const queue = new Queue("jobs", { connection });
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const counts = await queue.getJobCounts("completed", "failed", "active", "waiting", "delayed", "prioritized");
    if (counts.failed > 0) fail(`jobs have failed: ${JSON.stringify(counts)}`);
    if (counts.completed === count) break;
    if (Date.now() > end) fail(`not all jobs are done: ${JSON.stringify(counts)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const done = await redis.smembers("done");
  if (new Set(done.map(Number)).size !== count) fail(`${done.length} of ${count} jobs have left their number`);
  await one.close();
  await queue.close();
  redis.disconnect();
  console.log(`all ${count} jobs are done`);
}

async function basics() {
  const redis = new Redis(connection);
  await redis.flushall();
  const replies = await redis.pipeline().set("a", 1).incr("a").lpush("list", 1, 2).hset("hash", { f: "v" }).exec();
  if (JSON.stringify(replies) !== '[[null,"OK"],[null,2],[null,2],[null,1]]') fail(JSON.stringify(replies));
  redis.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  if ((await redis.add("a", 5)) !== 7) fail("a script");
  await redis.xgroup("CREATE", "stream", "group", "$", "MKSTREAM");
  await redis.xadd("stream", "*", "field", "value");
  const read = await redis.xreadgroup("GROUP", "group", "one", "COUNT", 1, "STREAMS", "stream", ">");
  if (read[0][1][0][1][1] !== "value") fail(JSON.stringify(read));
  const listener = new Redis(connection);
  const heard = new Promise((resolve) => listener.on("message", (channel, text) => resolve(text)));
  await listener.subscribe("news");
  await redis.publish("news", "hello");
  if ((await heard) !== "hello") fail("a message");
  listener.disconnect();
  redis.disconnect();
  console.log("ioredis: ok");
}

async function work() {
  const redis = new Redis(connection);
  redis.on("error", () => {});
  worker(redis);
}

({ add, work, finish, basics })[part]().catch((error) => fail(error.stack));
