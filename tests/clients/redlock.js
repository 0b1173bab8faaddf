// Redlock (npm) over several running servers, in parts that a script runs while it kills servers.
//
//     node redlock.js PORTS contend FOLDER SECONDS   takes and releases one lock in turns; fails if two are inside at once
//     node redlock.js PORTS hold TTL_MS              takes a lock and ends; prints its value and the times between which it was taken
//     node redlock.js PORTS extend VALUE TTL_MS      its owner makes it longer; prints the times as `hold` does
//     node redlock.js PORTS wait TTL_MS SINCE UNTIL  another client gets the lock when it has expired, and not before
//
// PORTS are separated by commas; the lock is the one that redlock_pottery.py takes.
const fs = require("fs");
const path = require("path");
const Redis = require("ioredis");
const Redlock = require("redlock");

const [ports, part, ...rest] = process.argv.slice(2);
const RESOURCE = "redlock:shared";
const CLIENTS = 3;
const CONTEND_TTL_MS = 2000;
// Behind the end of a lock: one takes so long to be found free at most.
const SLACK_MS = 5000;

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

function fail(what) {
  console.error(what);
  process.exit(1);
}

// While a server is gone, what is asked of it fails at once: the other servers decide.
async function connect(options) {
  const settings = { enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 20, commandTimeout: 1000 };
  const servers = ports.split(",").map((port) => new Redis({ host: "127.0.0.1", port: Number(port), ...settings }));
  servers.forEach((server) => server.on("error", () => {}));
  await Promise.all(servers.map((server) => new Promise((resolve) => server.once("ready", resolve))));
  const redlock = new Redlock(servers, { retryCount: 0, ...options });
  redlock.on("clientError", () => {});
  return redlock;
}

async function section(redlock, inside) {
  let lock;
  try {
    lock = await redlock.lock(RESOURCE, CONTEND_TTL_MS);
  } catch (error) {
    if (!(error instanceof Redlock.LockError)) throw error;
    await sleep(5 * Math.random());
    return 0;
  }
  // Another one that is inside has made the folder.
  fs.mkdirSync(inside);
  await sleep(2);
  fs.rmdirSync(inside);
  if (Date.now() > lock.expiration) fail("the machine is too slow: the lock has expired in the section");
  // A majority may be missing: the lock then ends with its time.
  await lock.unlock().catch(() => {});
  await sleep(5 * Math.random());
  return 1;
}

async function contend(folder, seconds) {
  const inside = path.join(folder, "inside");
  const end = Date.now() + Number(seconds) * 1000;
  const work = async () => {
    const redlock = await connect();
    let count = 0;
    while (Date.now() < end) count += await section(redlock, inside);
    return count;
  };
  const counts = await Promise.all(Array.from({ length: CLIENTS }, work));
  if (counts.includes(0)) fail(`a client has never had the lock: ${counts}`);
  console.log(`Redlock (npm): ${counts.reduce((sum, count) => sum + count)} times in the section, one at a time`);
}

async function hold(ttl) {
  const redlock = await connect();
  const since = Date.now();
  const lock = await redlock.lock(RESOURCE, Number(ttl));
  console.log(lock.value, since, Date.now());
}

async function extend(value, ttl) {
  const redlock = await connect();
  const lock = new Redlock.Lock(redlock, RESOURCE, value, Date.now() + 1000, 1, 0);
  const since = Date.now();
  await lock.extend(Number(ttl));
  console.log(value, since, Date.now());
}

async function wait(ttl, since, until) {
  const redlock = await connect();
  const foreign = new Redlock.Lock(redlock, RESOURCE, "not the owner's", Date.now() + 1000, 1, 0);
  if (await foreign.unlock().then(() => true, () => false)) fail("another than the owner has released the lock");
  let refused = 0;
  let lock;
  let asked;
  while (!lock) {
    asked = Date.now();
    if (asked > Number(until) + Number(ttl) + SLACK_MS) fail("the lock does not end");
    lock = await redlock.lock(RESOURCE, 1000).catch(() => null);
    refused += !lock;
    await sleep(10);
  }
  if (!refused) fail("the lock was free at once");
  // The servers count from when they took it, which was not before it was asked for.
  if (Date.now() < Number(since) + Number(ttl)) fail("the lock was had twice");
  await lock.unlock();
  console.log(`Redlock (npm): refused ${refused} times, then had ${asked - since - ttl} ms after the time that was asked for`);
}

({ contend, hold, extend, wait })[part](...rest).then(() => process.exit(0), (error) => fail(error.stack));
