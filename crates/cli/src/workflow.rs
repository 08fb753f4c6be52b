//! `abide workflow`: the instances of a program's workflows, their steps, and operations on them.

use std::io::Write;

use abide::workflow::{InstanceRecord, Page, Status, StepRecord};
use anyhow::{Error, Result, anyhow};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    node::{Node, NodeArgs, is_no_object, segment},
    text::{plain, time},
};

/// Instances and steps per request; more are requested page by page.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Workflow {
    /// List the instances of a workflow, newest first
    List(ListArgs),
    /// Show the state of an instance
    Show(InstanceArgs),
    /// List the steps of an instance: state, attempts, last error
    Steps(InstanceArgs),
    /// Pause an instance: nothing new begins
    Pause(InstanceArgs),
    /// Resume an instance after a pause, or after the program was fixed
    Resume(InstanceArgs),
    /// Cancel an instance at its next call of the workflow API
    Cancel(CancelArgs),
    /// Restart an instance from a step, repeating everything after it
    Restart(RestartArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// The name of the workflow
    workflow: String,

    /// Only instances with this status
    #[arg(long, value_parser = ["running", "paused", "stuck", "completed", "failed", "canceled"])]
    status: Option<String>,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Args)]
pub(crate) struct InstanceArgs {
    /// The name of the workflow
    workflow: String,

    /// The id of the instance
    id: String,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    instance: InstanceArgs,

    /// The reason, for its history
    #[arg(long, value_name = "TEXT", default_value = "an operator canceled it")]
    reason: String,
}

#[derive(Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    instance: InstanceArgs,

    /// The name of the step
    step: String,

    /// Which occurrence of that name
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    occurrence: u32,
}

#[derive(Deserialize)]
struct Steps {
    steps: Vec<StepRecord>,
}

/// An instance on a running node.
struct Opened<'a> {
    node: Node,
    path: String,
    args: &'a InstanceArgs,
}

impl Opened<'_> {
    fn get<R: DeserializeOwned>(&self, question: &str) -> Result<R> {
        let answer = self.node.get(&format!("{}{question}", self.path));
        answer.map_err(|error| self.named(error))
    }

    fn post<R: DeserializeOwned>(&self, verb: &str, body: &impl Serialize) -> Result<R> {
        let answer = self.node.post(&format!("{}/{verb}", self.path), body);
        answer.map_err(|error| self.named(error))
    }

    fn named(&self, error: Error) -> Error {
        let InstanceArgs { workflow, id, .. } = self.args;
        if is_no_object(&error) {
            return anyhow!("workflow `{workflow}` has no instance `{id}`");
        }
        error
    }
}

impl InstanceArgs {
    fn open(&self) -> Result<Opened<'_>> {
        let name = segment(&format!("{}/{}", self.workflow, self.id));
        Ok(Opened {
            node: self.node.node()?,
            path: format!("/objects/WorkflowInstance/{name}/components/workflow"),
            args: self,
        })
    }
}

pub(crate) fn run(command: &Workflow, out: &mut impl Write) -> Result<()> {
    let nothing = json!({});
    match command {
        Workflow::List(args) => list(args, out),
        Workflow::Show(args) => show(args, out),
        Workflow::Steps(args) => steps(args, out),
        Workflow::Pause(args) => change(args, "pause", &nothing, out),
        Workflow::Resume(args) => change(args, "resume", &nothing, out),
        Workflow::Cancel(args) => {
            let reason = json!({ "reason": args.reason });
            change(&args.instance, "cancel", &reason, out)
        }
        Workflow::Restart(args) => {
            let step = json!({ "step": args.step, "occurrence": args.occurrence });
            change(&args.instance, "restart", &step, out)
        }
    }
}

fn list(args: &ListArgs, out: &mut impl Write) -> Result<()> {
    let node = args.node.node()?;
    let directory = segment(&args.workflow);
    let status = args.status.as_ref();
    let status = status.map_or_else(String::new, |status| format!("&status={status}"));
    writeln!(out, "INSTANCE\tSTATUS\tSTARTED\tCHANGED\tERROR")?;
    let mut after = String::new();
    loop {
        let Page { instances, next } = node.get(&format!(
            "/objects/WorkflowDirectory/{directory}/components/workflow/instances?limit={PAGE}{status}{after}"
        ))?;
        for instance in &instances {
            writeln!(
                out,
                "{}\t{}\t{}\t{}\t{}",
                plain(&instance.id),
                instance.status,
                time(Some(instance.created_at)),
                time(Some(instance.updated_at)),
                plain(instance.error.as_deref().unwrap_or("-"))
            )?;
        }
        let Some((at, id)) = next else { return Ok(()) };
        after = format!("&after={at}&after_id={}", segment(&id));
    }
}

fn show(args: &InstanceArgs, out: &mut impl Write) -> Result<()> {
    print(&args.open()?.get("")?, out)
}

fn steps(args: &InstanceArgs, out: &mut impl Write) -> Result<()> {
    let instance = args.open()?;
    writeln!(out, "STEP\tUSE\tKIND\tSTATE\tATTEMPTS\tDUE\tERROR")?;
    let mut after = 0;
    loop {
        let Steps { steps } = instance.get(&format!("/steps?limit={PAGE}&after={after}"))?;
        for step in &steps {
            writeln!(
                out,
                "{}\t{}\t{}\t{}\t{}\t{}\t{}",
                plain(&step.name),
                step.occurrence,
                step.kind.as_str(),
                step.state.as_str(),
                step.attempts,
                time(step.due),
                plain(step.error.as_deref().unwrap_or("-"))
            )?;
        }
        match steps.last() {
            Some(last) if steps.len() == PAGE => after = last.id,
            _ => return Ok(()),
        }
    }
}

fn change(
    args: &InstanceArgs,
    verb: &str,
    body: &impl Serialize,
    out: &mut impl Write,
) -> Result<()> {
    print(&args.open()?.post(verb, body)?, out)
}

fn print(instance: &InstanceRecord, out: &mut impl Write) -> Result<()> {
    writeln!(out, "workflow: {}", plain(&instance.workflow))?;
    writeln!(out, "instance: {}", plain(&instance.id))?;
    let is_going = instance.cancel.is_some() && instance.status == Status::Running;
    let going = if is_going { ", is being canceled" } else { "" };
    writeln!(out, "status: {}{going}", instance.status)?;
    writeln!(out, "run: {}", instance.run)?;
    writeln!(out, "started: {}", time(Some(instance.created_at)))?;
    writeln!(out, "changed: {}", time(Some(instance.updated_at)))?;
    if let Some(parent) = &instance.parent {
        writeln!(out, "parent: {}", plain(parent))?;
    }
    if let Some(error) = &instance.error {
        writeln!(out, "error: {}", plain(error))?;
    }
    Ok(())
}
