import { decodePolicy, MINIMUM_MINOR } from '../../../install/index.ts';
import { MIN_DEFAULTS_MINOR } from '../../../policy/psa/index.ts';
import { latestVersion, minorVersion, type Version } from '../../../policy/pss/index.ts';
import { CHART_CONSEQUENCE } from '../../installation/settings.ts';
import { type DoctorCheck, type CheckResult, evaluateFact, type Facts, info, ok, problem, unknown } from '../facts.ts';
import { instruction, commandFix } from '../fix.ts';

const OBJECT = 'API server';

/** Checks that the version of the API server is supported, and reports how the version affects the installation. */
export const apiServer: DoctorCheck = {
  name: 'api-server',
  evaluate: ({ server, settings }) =>
    evaluateFact(server, OBJECT, ({ version, minor }) => [
      checkSupport(version, minor),
      describeLatest(minor, decodePolicy(settings).emulationVersion),
      ...describeDefaults(settings, minor),
      ...describeGroups(settings),
    ]),
};

/**
 * Checks that the API server version is supported. Development builds, such as v0.0.0-master+abc, report the real
 * version only in `major` and `minor`.
 */
function checkSupport(version: string, served: Version | undefined): CheckResult {
  const [, major, minor] = /^v?([1-9]\d*)\.(\d+)/.exec(version) ?? /^v(1)\.(\d+)$/.exec(served ?? '') ?? [];
  if (major === undefined) return unknown(OBJECT, `cannot parse version ${version}`);
  if (Number(major) > 1 || Number(minor) >= MINIMUM_MINOR) return ok(OBJECT, `Kubernetes ${version} is supported`);
  return problem(OBJECT, `Kubernetes ${version} is older than v1.${MINIMUM_MINOR}`, {
    impact: 'Portcullis is not tested with this version',
    fix: instruction('upgrade the cluster'),
  });
}

/** Reports the Kubernetes version to which `latest` refers in Pod Security. */
function describeLatest(server: Version | undefined, emulationVersion: Version | undefined): CheckResult {
  const object = 'Pod Security';
  const meaning = `latest means ${latestVersion(emulationVersion ?? server)}`;
  if (emulationVersion !== undefined) return info(object, `${meaning}, which spec.podSecurity.emulationVersion sets`);
  if (server === undefined) return info(object, `${meaning}, because the API server reports no version`);
  if (latestVersion(server) === server) return ok(object, `${meaning}, as in the API server`);
  return info(object, `${meaning}, the newest known version`, {
    fix: instruction(`upgrade Portcullis to evaluate the checks of ${server}`),
  });
}

/** Reports that a webhook sets the defaults, because older API servers do not serve MutatingAdmissionPolicies. */
function describeDefaults(settings: Facts['settings'], server: Version | undefined): readonly CheckResult[] {
  const isOff = decodePolicy(settings).defaults.mode === 'off';
  if (isOff || server === undefined || minorVersion(server) >= MIN_DEFAULTS_MINOR) return [];
  const state = `the webhook sets the defaults, because MutatingAdmissionPolicies require Kubernetes v1.${MIN_DEFAULTS_MINOR}`;
  return [
    info('spec.defaults', state, {
      impact: 'pods that are created while no replica responds have no defaults',
      fix: instruction('upgrade the cluster. The leader then replaces the webhook with a policy'),
    }),
  ];
}

function describeGroups(settings: Facts['settings']): readonly CheckResult[] {
  const { mode } = decodePolicy(settings).scc;
  if (!settings.features.scc || mode === 'enforce') return [];
  const fix = { ...commandFix('portcullis', 'scc', 'plan'), note: 'shows what spec.scc.mode=enforce would change' };
  return [info('security.openshift.io', `is served, but spec.scc.mode is ${mode}`, { impact: CHART_CONSEQUENCE, fix })];
}
