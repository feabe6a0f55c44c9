/**
 * Table of the custom resources whose pods are known. The row of a kind contains the paths of pod templates, or
 * describes how the fields of the kind become a pod. Controllers add further fields and containers, which are not
 * evaluated.
 */

/** A path with steps separated by dots. In the paths of pods, `*` matches every member or item. */
type FieldPattern = string;

/**
 * Describes a pod that is composed of the fields of a custom resource. The pod spec fields have the same names as in
 * pods, except for `securityContext` and the containers. Paths start at the object that contains the pod fields, or at
 * the custom resource if they begin with a slash.
 */
export interface PodFieldMap {
  /** Objects that each contain the fields and containers of one pod. */
  readonly at: readonly FieldPattern[];
  /** Objects that contain pod fields but no containers. They are used if the objects in `at` have no containers. */
  readonly otherwise?: readonly FieldPattern[];
  /** Field of the object. There is a pod only if its value is true. */
  readonly if?: string;
  /** Further objects that contain pod fields. A field applies only if the earlier objects do not set it. */
  readonly also?: readonly FieldPattern[];
  /** Field of the first object that contains the pod's security context. */
  readonly securityContext?: string;
  /**
   * Paths of containers or of container lists. An empty path refers to the object itself. The second path of a pair
   * refers to a container with defaults for the other container, or for all items of the list.
   */
  readonly containers?: readonly (FieldPattern | readonly [FieldPattern, defaults: FieldPattern])[];
}

export interface CustomKind {
  /** Paths of the pod templates. An empty path refers to the object itself. */
  readonly templates?: readonly FieldPattern[];
  readonly pods?: readonly PodFieldMap[];
}

const TASK = [['steps', 'stepTemplate'], 'sidecars'] as const;

/** Maximum depth of nested pipelines. Containers at a greater depth are reported as not evaluated. */
const MAX_PIPELINES = 3;

/** Returns the paths of the tasks in a Tekton pipeline and its nested pipelines. */
function pipelineTasks(spec: FieldPattern, depth = MAX_PIPELINES): readonly FieldPattern[] {
  const tasks = depth === 0 ? [] : [`${spec}.tasks.*`, `${spec}.finally.*`];
  return tasks.flatMap((task) => [`${task}.taskSpec`, ...pipelineTasks(`${task}.pipelineSpec`, depth - 1)]);
}

/** Returns the row of a Strimzi component. Only the containers that the template configures are known. */
function strimzi(at: FieldPattern, containers: readonly string[]): PodFieldMap {
  return { at: [at], otherwise: [at], also: ['pod'], containers };
}

const STRIMZI_CONNECT: CustomKind = {
  pods: [
    strimzi('spec.template', ['connectContainer', 'initContainer']),
    {
      at: ['spec.template.buildPod'],
      otherwise: ['spec.template.buildPod'],
      containers: ['/spec.template.buildContainer'],
    },
  ],
};

const OTEL: PodFieldMap = {
  at: ['spec'],
  securityContext: 'podSecurityContext',
  containers: ['', 'initContainers', 'additionalContainers'],
};

/** Pods whose containers the operator creates. The containers in the object only modify them. */
const PROMETHEUS: CustomKind = { pods: [{ at: [], otherwise: ['spec'] }] };

function workflow(spec: FieldPattern): CustomKind {
  const defaults = `/${spec}.templateDefaults`;
  const containers = [
    ...['container', 'script'].map((name) => [name, `${defaults}.${name}`] as const),
    'containerSet.containers',
    'initContainers',
    'sidecars',
  ];
  return { pods: [{ at: [`${spec}.templates.*`], otherwise: [spec], also: [defaults, `/${spec}`], containers }] };
}

function spark(spec: FieldPattern): CustomKind {
  return {
    pods: [
      {
        at: [`${spec}.driver`, `${spec}.executor`],
        also: ['template.spec', `/${spec}`],
        securityContext: 'podSecurityContext',
        containers: [
          ['', 'template.spec.containers.0'],
          'initContainers',
          'sidecars',
          'template.spec.initContainers',
          'template.spec.containers',
        ],
      },
    ],
  };
}

/** The custom resources, by kind and API group. */
export const CUSTOM_KINDS: Readonly<Record<string, CustomKind>> = {
  'AdvancedCronJob.apps.kruise.io': {
    templates: ['spec.template.jobTemplate.spec.template', 'spec.template.broadcastJobTemplate.spec.template'],
  },
  'Alertmanager.monitoring.coreos.com': PROMETHEUS,
  'BroadcastJob.apps.kruise.io': { templates: ['spec.template'] },
  'CloneSet.apps.kruise.io': { templates: ['spec.template'] },
  'ClusterTask.tekton.dev': { pods: [{ at: ['spec'], containers: TASK }] },
  'ClusterWorkflowTemplate.argoproj.io': workflow('spec'),
  'Configuration.serving.knative.dev': { templates: ['spec.template'] },
  'ContainerSource.sources.knative.dev': { templates: ['spec.template'] },
  'CronWorkflow.argoproj.io': workflow('spec.workflowSpec'),
  'DaemonSet.apps.kruise.io': { templates: ['spec.template'] },
  'DeploymentConfig.apps.openshift.io': { templates: ['spec.template'] },
  'Experiment.argoproj.io': { templates: ['spec.templates.*.template'] },
  'Job.batch.volcano.sh': { templates: ['spec.tasks.*.template'] },
  'Kafka.kafka.strimzi.io': {
    pods: [
      strimzi('spec.kafka.template', ['kafkaContainer', 'initContainer']),
      strimzi('spec.zookeeper.template', ['zookeeperContainer']),
      strimzi('spec.entityOperator.template', [
        'topicOperatorContainer',
        'userOperatorContainer',
        'tlsSidecarContainer',
      ]),
      strimzi('spec.cruiseControl.template', ['cruiseControlContainer', 'tlsSidecarContainer']),
      strimzi('spec.kafkaExporter.template', ['container']),
      strimzi('spec.jmxTrans.template', ['container']),
    ],
  },
  'KafkaBridge.kafka.strimzi.io': { pods: [strimzi('spec.template', ['bridgeContainer', 'initContainer'])] },
  'KafkaConnect.kafka.strimzi.io': STRIMZI_CONNECT,
  'KafkaMirrorMaker.kafka.strimzi.io': { pods: [strimzi('spec.template', ['mirrorMakerContainer'])] },
  'KafkaMirrorMaker2.kafka.strimzi.io': STRIMZI_CONNECT,
  'KafkaNodePool.kafka.strimzi.io': { pods: [strimzi('spec.template', ['kafkaContainer', 'initContainer'])] },
  'MPIJob.kubeflow.org': { templates: ['spec.mpiReplicaSpecs.*.template'] },
  'Notebook.kubeflow.org': { templates: ['spec.template'] },
  'OpAMPBridge.opentelemetry.io': {
    pods: [OTEL],
  },
  'OpenTelemetryCollector.opentelemetry.io': {
    pods: [OTEL, { ...OTEL, at: ['spec.targetAllocator'], if: 'enabled' }],
  },
  'Pipeline.tekton.dev': { pods: [{ at: pipelineTasks('spec'), containers: TASK }] },
  'PipelineRun.tekton.dev': {
    pods: [
      {
        at: pipelineTasks('spec.pipelineSpec'),
        otherwise: ['spec'],
        also: ['/spec.taskRunTemplate.podTemplate', '/spec.podTemplate', '/spec.taskRunTemplate'],
        containers: TASK,
      },
      { at: [], otherwise: ['spec.taskRunSpecs.*.podTemplate', 'spec.taskRunSpecs.*.taskPodTemplate'] },
    ],
  },
  'Prometheus.monitoring.coreos.com': PROMETHEUS,
  'PrometheusAgent.monitoring.coreos.com': PROMETHEUS,
  'PyTorchJob.kubeflow.org': { templates: ['spec.pytorchReplicaSpecs.*.template'] },
  'RayCluster.ray.io': { templates: ['spec.headGroupSpec.template', 'spec.workerGroupSpecs.*.template'] },
  'Revision.serving.knative.dev': { templates: [''] },
  'Rollout.argoproj.io': { templates: ['spec.template'] },
  'ScaledJob.keda.sh': { templates: ['spec.jobTargetRef.template'] },
  'ScheduledSparkApplication.sparkoperator.k8s.io': spark('spec.template'),
  'Service.serving.knative.dev': { templates: ['spec.template'] },
  'SparkApplication.sparkoperator.k8s.io': spark('spec'),
  'StatefulSet.apps.kruise.io': { templates: ['spec.template'] },
  'StepAction.tekton.dev': { pods: [{ at: ['spec'], containers: [''] }] },
  'TFJob.kubeflow.org': { templates: ['spec.tfReplicaSpecs.*.template'] },
  'TargetAllocator.opentelemetry.io': {
    pods: [OTEL],
  },
  'Task.tekton.dev': { pods: [{ at: ['spec'], containers: TASK }] },
  'TaskRun.tekton.dev': {
    pods: [
      {
        at: ['spec'],
        otherwise: ['spec'],
        also: ['podTemplate', 'taskSpec'],
        containers: [['taskSpec.steps', 'taskSpec.stepTemplate'], 'taskSpec.sidecars'],
      },
    ],
  },
  'ThanosRuler.monitoring.coreos.com': PROMETHEUS,
  'Workflow.argoproj.io': workflow('spec'),
  'WorkflowTemplate.argoproj.io': workflow('spec'),
};
