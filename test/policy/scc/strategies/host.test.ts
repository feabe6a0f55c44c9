import { checkStrategies } from './check.ts';

const EVERYTHING = { allowHostNetwork: true, allowHostPorts: true, allowHostPID: true, allowHostIPC: true };
const REQUIRE = { userNamespaceLevel: 'RequirePodLevel' };

checkStrategies([
  {
    name: 'namespaces of the host, told of the pod and of the container',
    scc: {},
    spec: { hostNetwork: true, hostPID: true, hostIPC: true },
    expected: {
      errors: [
        'provider some: .spec.hostNetwork: Invalid value: true: Host network is not allowed to be used',
        'provider some: .spec.hostPID: Invalid value: true: Host PID is not allowed to be used',
        'provider some: .spec.hostIPC: Invalid value: true: Host IPC is not allowed to be used',
        'provider some: .containers[0].hostNetwork: Invalid value: true: Host network is not allowed to be used',
        'provider some: .containers[0].hostPID: Invalid value: true: Host PID is not allowed to be used',
        'provider some: .containers[0].hostIPC: Invalid value: true: Host IPC is not allowed to be used',
      ],
    },
  },
  {
    name: 'each container is charged with the ports of all',
    scc: {},
    spec: {
      initContainers: [{ name: 'init', ports: [{ hostPort: 0 }, { hostPort: 80 }] }],
      containers: [{ name: 'app' }],
    },
    expected: {
      errors: [
        'provider some: .initContainers[0].initContainers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
        'provider some: .containers[0].initContainers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
      ],
    },
  },
  {
    name: 'all where it is allowed',
    scc: EVERYTHING,
    spec: { hostNetwork: true, hostPID: true, hostIPC: true, containers: [{ name: 'app', ports: [{ hostPort: 80 }] }] },
    expected: {},
  },
  { name: 'a user namespace where one is required', scc: REQUIRE, spec: { hostUsers: false }, expected: {} },
  {
    name: 'no word about a user namespace where one is required',
    scc: REQUIRE,
    expected: { errors: ['provider some: .spec.hostUsers: Invalid value: null: Host Users must be set to false'] },
  },
  {
    name: 'a level that nobody knows requires nothing',
    scc: { userNamespaceLevel: 'RequireEverything' },
    spec: { hostUsers: true },
    expected: {},
  },
]);
