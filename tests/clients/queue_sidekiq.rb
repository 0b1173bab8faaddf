# A job queue of Sidekiq against a running server, in parts that a script runs one after another and kills.
#
#     queue_sidekiq.rb add COUNT      adds jobs, numbered from 0
#     queue_sidekiq.rb work           works on jobs until it is killed; each leaves its number in a set
#     queue_sidekiq.rb finish COUNT   works on what is left; ends when all are done, fails if more are missing than were killed
#     queue_sidekiq.rb push FILE      adds jobs until the server is gone; the file has a line for each that was acknowledged
#     queue_sidekiq.rb pushed FILE    fails if one of those is not in the queue
#
# Each tenth job is scheduled, and each tenth fails at first and is retried: both wait in sorted sets, and a script takes them out.
#
# Sidekiq without its commercial parts takes a job off its list (BRPOP) before it is done, and one that is due off its sorted set
# before it is in the list. A job that a killed worker has in its hands is lost with any server: one of each kind for a kill.
#
# The address comes from REDIS_URL.
require "sidekiq"
require "sidekiq/api"

PATIENCE_S = 120
# Two workers and the server are killed.
KILLS = 3
# One job is worked on, and one is on its way from a sorted set to the list.
LOST_BY_A_KILL = 2
# So long nothing is left to be done before a job counts as lost.
IDLE_S = 5
POLL_S = 0.2

Sidekiq.logger.level = Logger::ERROR
# Sidekiq 6 asks the library of Redis in ways that this says are old, at each job.
Redis.silence_deprecations = true if Redis.respond_to?(:silence_deprecations=)
Sidekiq.configure_server do |config|
  # Later releases have their options there.
  options = config.respond_to?(:[]=) ? config : Sidekiq.options
  options[:poll_interval_average] = POLL_S
end

# While the server is gone, a job tries again.
def patiently
  yield
rescue Redis::BaseConnectionError
  sleep 0.05
  retry
end

class Job
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  def perform(number)
    sleep 0.003
    # A later library answers with a number.
    is_first = [true, 1].include?(patiently { Sidekiq.redis { |redis| redis.sadd("tried", number.to_s) } })
    raise "to be retried" if number % 10 == 5 && is_first
    patiently { Sidekiq.redis { |redis| redis.sadd("done", number.to_s) } }
  end
end

def add(count)
  count.times { |number| number % 10 == 0 ? Job.perform_in(0.5, number) : Job.perform_async(number) }
end

def worker
  ["sidekiq", "--concurrency", "1", "--timeout", "1", "--require", File.realpath(__FILE__)]
end

def left
  [Sidekiq::Queue.new.size, Sidekiq::ScheduledSet.new.size, Sidekiq::RetrySet.new.size]
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def finish(count)
  process = spawn(*worker, out: File::NULL, err: File::NULL)
  final = now + PATIENCE_S
  idle_since = now
  until (done = Sidekiq.redis { |redis| redis.scard("done") }) == count
    idle_since = now if left.sum > 0
    break if now > final || now - idle_since > IDLE_S
    sleep 0.05
  end
  lost = count - done
  retried = Sidekiq.redis { |redis| redis.smembers("done") }.count { |number| number.to_i % 10 == 5 }
  puts "#{done} of #{count} jobs are done, #{retried} of them at the second try#{", #{lost} were lost with a kill" if lost > 0}"
  abort "queued, scheduled, to be retried: #{left}" if left.sum > 0
  abort "more than #{LOST_BY_A_KILL} for each kill are lost" if lost > KILLS * LOST_BY_A_KILL
ensure
  Process.kill("KILL", process)
  Process.wait(process)
end

def push(file)
  File.open(file, "w") do |acknowledged|
    (0..).each do |number|
      number.odd? ? Job.perform_async(number) : Job.perform_in(3600, number)
      acknowledged.puts(number)
      acknowledged.flush
    end
  end
rescue Redis::BaseConnectionError
  nil
end

def pushed(file)
  acknowledged = File.readlines(file).map(&:to_i)
  there = (Sidekiq::Queue.new.to_a + Sidekiq::ScheduledSet.new.to_a).map { |job| job.args[0] }
  # The last one may be there without its reply.
  abort "#{there.size} are there, #{acknowledged.size} were acknowledged" if there.uniq.size != there.size || there.size > acknowledged.size + 1
  missing = acknowledged - there
  abort "acknowledged, and not there: #{missing}" unless missing.empty?
  abort "no job was added" if acknowledged.empty?
  puts "all #{acknowledged.size} jobs that were acknowledged are there"
end

# The worker's program loads this file too.
if $PROGRAM_NAME == __FILE__
  case ARGV[0]
  when "add" then add(ARGV[1].to_i)
  when "work" then exec(*worker)
  when "finish" then finish(ARGV[1].to_i)
  when "push" then push(ARGV[1])
  when "pushed" then pushed(ARGV[1])
  end
end
