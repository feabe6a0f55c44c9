/** Candidates for a leader election, each with a process that can be paused and a network with faults. */
import type { Clock } from '../../src/cluster/clock.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import {
  createLeaderElection,
  type LeaderElection,
  type LeaderElectionOptions,
} from '../../src/controllers/leadership.ts';
import { createRecorder, type Recorder } from './controllers.ts';
import type { FakeClock } from './fake-clock.ts';

export interface RequestFault {
  /**
   * The outcome of a request. If it is `refused`, the request does not arrive. If it is `lost`, an error replaces the
   * response. If it `hangs`, there is no response.
   */
  readonly outcome: 'fine' | 'refused' | 'lost' | 'hangs';
  /** Delays of the request and of the response. */
  readonly thereMs?: number;
  readonly backMs?: number;
}

export interface Machine {
  readonly clock: Clock;
  /** The cluster, accessed through the network of the machine. */
  readonly cluster: Cluster;
  /** Replaces the function that returns the fault of the next request. */
  network(next: () => RequestFault): void;
  isPaused(): boolean;
  /** Delays timers and responses until `resume`. */
  pause(): void;
  resume(): Promise<void>;
}

/** The number of requests from all machines that the cluster is processing. */
export interface Load {
  count: number;
}

const FINE: RequestFault = { outcome: 'fine' };

export function createMachine(clock: FakeClock, cluster: Cluster, load: Load): Machine {
  let isPaused = false;
  let next = (): RequestFault => FINE;
  const late: (() => void)[] = [];

  const soon = (call: () => void): void => {
    if (isPaused) late.push(call);
    else call();
  };
  const after = (delayMs: number, call: () => void): (() => void) => {
    let isCancelled = false;
    const cancel = clock.after(delayMs, () => soon(() => isCancelled || call()));
    return () => {
      isCancelled = true;
      cancel();
    };
  };
  const travel = async <T>(request: () => Promise<T>): Promise<T> => {
    const { outcome, thereMs = 0, backMs = 0 } = next();
    if (thereMs > 0)
      await new Promise<void>((resolve) => {
        clock.after(thereMs, resolve);
      });
    if (outcome === 'hangs') return new Promise(() => undefined);
    load.count++;
    const answer = outcome === 'refused' ? Promise.reject(new Error('connection refused')) : request();
    await Promise.allSettled([answer]);
    load.count--;
    await new Promise<void>((resolve) => {
      if (backMs > 0) after(backMs, resolve);
      else soon(resolve);
    });
    if (outcome === 'lost') throw new Error('connection reset by peer');
    return answer;
  };
  return {
    clock: { now: () => clock.now(), after },
    cluster: {
      ...cluster,
      get: (...args) => travel(() => cluster.get(...args)),
      create: (kind, object, options) => travel(() => cluster.create(kind, object, options)),
      update: (kind, object, options) => travel(() => cluster.update(kind, object, options)),
      recordEvent: (note) => travel(() => cluster.recordEvent(note)),
    },
    network: (how) => void (next = how),
    isPaused: () => isPaused,
    pause: () => void (isPaused = true),
    async resume() {
      isPaused = false;
      for (let call = late.shift(); call; call = late.shift()) {
        call();
        await nextTurn();
      }
    },
  };
}

export interface Candidate extends Recorder, LeaderElection {
  readonly identity: string;
  readonly machine: Machine;
  /** Returns true if the candidate leads and its process is not paused. */
  acts(): boolean;
  /** The notifications `started` and `stopped`, in order. */
  readonly told: string[];
}

export interface Election {
  readonly clock: FakeClock;
  readonly candidates: readonly Candidate[];
  candidate(identity: string, options?: Partial<LeaderElectionOptions>): Candidate;
  /** Advances the clock in small steps and completes all due work. */
  pass(ms: number): Promise<void>;
  /** Waits until the cluster has responded to all requests. */
  settle(): Promise<void>;
}

const STEP_MS = 100;

/** Creates an election without candidates. The election calls `watch` after every step. */
export function createElection(
  clock: FakeClock,
  cluster: Cluster,
  lease: { readonly name: string; readonly namespace: string },
  watch: () => void = () => undefined,
): Election {
  const load: Load = { count: 0 };
  const candidates: Candidate[] = [];
  const settle = async (): Promise<void> => {
    do for (let turn = 0; turn < 4; turn++) await nextTurn();
    while (load.count > 0);
  };
  return {
    clock,
    candidates,
    settle,
    candidate(identity, options) {
      const machine = createMachine(clock, cluster, load);
      const recorder = createRecorder();
      const told: string[] = [];
      const election = createLeaderElection({
        ...recorder,
        ...lease,
        identity,
        cluster: machine.cluster,
        clock: machine.clock,
        onStarted: () => void told.push('started'),
        onStopped: () => {
          told.push('stopped');
          return Promise.resolve();
        },
        ...options,
      });
      const acts = (): boolean => !machine.isPaused() && election.isLeading();
      const made: Candidate = { ...recorder, ...election, identity, machine, told, acts };
      candidates.push(made);
      election.start();
      return made;
    },
    async pass(ms) {
      for (const endMs = clock.now() + ms; clock.now() < endMs;) {
        clock.advance(Math.min(STEP_MS, endMs - clock.now()));
        watch();
        await settle();
        watch();
      }
    },
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
