import { checkStrategies } from './check.ts';

const POD = 'seccomp.security.alpha.kubernetes.io/pod';
const APP = 'container.seccomp.security.alpha.kubernetes.io/app';
const DEFAULT = { seccompProfiles: ['runtime/default'] };

checkStrategies([
  {
    name: 'the first profile, as field and as annotation',
    scc: { seccompProfiles: ['*', 'localhost/a', 'unconfined'] },
    expected: {
      pod: { seccompProfile: { type: 'Localhost', localhostProfile: 'a' } },
      annotations: { [POD]: 'localhost/a' },
    },
  },
  { name: 'a wildcard alone generates nothing', scc: { seccompProfiles: ['*'] }, expected: {} },
  {
    name: 'a field brings its annotation, under every SCC that allows it',
    scc: { seccompProfiles: ['*'] },
    pod: { seccompProfile: { type: 'Unconfined' } },
    expected: { annotations: { [POD]: 'unconfined' } },
  },
  {
    name: 'the annotation goes before the field and rewrites it',
    scc: { seccompProfiles: ['*'] },
    pod: { seccompProfile: { type: 'Unconfined' } },
    annotations: { [POD]: 'docker/default' },
    expected: { pod: { seccompProfile: { type: 'RuntimeDefault' } } },
  },
  {
    name: 'an annotation that says nothing known removes the field',
    scc: { seccompProfiles: ['*'] },
    pod: { runAsUser: 0, seccompProfile: { type: 'Unconfined' } },
    annotations: { [POD]: 'localhost/' },
    expected: { pod: { runAsUser: 0 } },
  },
  {
    name: 'the annotation of a container becomes its field',
    scc: { seccompProfiles: ['*'] },
    annotations: { [APP]: 'localhost/b' },
    expected: { container: { seccompProfile: { type: 'Localhost', localhostProfile: 'b' } } },
  },
  {
    name: 'both names of the default of the runtime are one',
    scc: { seccompProfiles: ['docker/default'] },
    pod: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: { annotations: { [POD]: 'runtime/default' } },
  },
  {
    name: 'an SCC without profiles allows none',
    scc: {},
    pod: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: {
      errors: [
        `metadata.annotations[${POD}]: Forbidden: seccomp may not be set`,
        `metadata.annotations[${APP}]: Forbidden: seccomp may not be set`,
      ],
    },
  },
  {
    name: 'a profile that is not listed',
    scc: { seccompProfiles: ['runtime/default', 'localhost/a'] },
    container: { seccompProfile: { type: 'Localhost', localhostProfile: 'b' } },
    expected: {
      errors: [
        `metadata.annotations[${APP}]: Forbidden: localhost/b is not an allowed seccomp profile. Valid values are [runtime/default localhost/a]`,
      ],
    },
  },
  {
    name: 'localhost/* is no pattern',
    scc: { seccompProfiles: ['localhost/*'] },
    annotations: { [POD]: 'localhost/a' },
    expected: {
      errors: [POD, APP].map(
        (key) =>
          `metadata.annotations[${key}]: Forbidden: localhost/a is not an allowed seccomp profile. Valid values are [localhost/*]`,
      ),
    },
  },
  {
    name: 'a field of the container is enough against a default of the pod',
    scc: DEFAULT,
    container: { seccompProfile: { type: 'RuntimeDefault' } },
    expected: { pod: { seccompProfile: { type: 'RuntimeDefault' } }, annotations: { [POD]: 'runtime/default' } },
  },
]);
